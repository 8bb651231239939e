"""Tokens: made here, known by their hashes, revoked for good."""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from sqlalchemy import delete, or_, select, update

from gradassay.api.auth.caller import Caller
from gradassay.api.auth.project import EVERY_PROJECT, check_project
from gradassay.api.auth.scope import Scope
from gradassay.api.auth.secret import hashed, new_secret
from gradassay.api.database.database import Database
from gradassay.api.database.tables import TokenRow
from gradassay.goldens.errors import NotFound, UsageError

PREFIX = "gat_"
ID = re.compile(r"[0-9a-f]{16}")
NAME_LENGTH = 128
USED_EVERY = timedelta(minutes=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Token:
    """What is known of a token; not the secret."""

    id: str
    name: str
    project: str
    scopes: tuple[Scope, ...]
    created_by: str
    created_at: datetime
    expires_at: datetime | None
    revoked_at: datetime | None
    used_at: datetime | None

    @property
    def caller(self) -> Caller:
        """Whom a request with this token comes from."""
        return Caller(who=self.name, project=self.project, scopes=frozenset(self.scopes))

    def is_valid(self, at: datetime) -> bool:
        """Neither revoked nor expired."""
        return self.revoked_at is None and (self.expires_at is None or at < self.expires_at)


class Tokens:
    """All tokens of a database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def create(
        self,
        *,
        name: str,
        scopes: Iterable[Scope],
        by: str,
        project: str,
        lifetime: timedelta | None = None,
    ) -> tuple[Token, str]:
        """A new token and its secret, which is told this once. No scopes: the token reads.

        Raises UsageError for a name, project or lifetime that makes no sense.
        """
        created = datetime.now(UTC)
        chosen = sorted(set(scopes))
        _check(name, project, chosen, lifetime)
        secret = new_secret(PREFIX)
        row = TokenRow(
            id=secrets.token_hex(8),
            name=name,
            hash=hashed(secret),
            project=project,
            scopes=[str(scope) for scope in chosen],
            created_by=by,
            created_at=created,
            expires_at=None if lifetime is None else created + lifetime,
        )
        with self._database.write() as session:
            session.add(row)
            session.flush()
            return _token(row), secret

    def find(self, secret: str) -> Token | None:
        """The valid token of this secret, or None; its last use is written, at most once a minute."""
        at = datetime.now(UTC)
        with self._database.read() as session:
            row = session.scalar(select(TokenRow).where(TokenRow.hash == hashed(secret)))
        if row is None or not (token := _token(row)).is_valid(at):
            return None
        if token.used_at is None or token.used_at <= at - USED_EVERY:
            self._use(token.id, at)
        return token

    def _use(self, token: str, at: datetime) -> None:
        unused = or_(TokenRow.used_at.is_(None), TokenRow.used_at <= at - USED_EVERY)
        with self._database.write() as session:
            session.execute(update(TokenRow).where(TokenRow.id == token, unused).values(used_at=at))

    def of_project(self, project: str = EVERY_PROJECT) -> list[Token]:
        """The tokens of a project, "*" for those of all, newest first; revoked and expired ones too."""
        query = select(TokenRow).order_by(TokenRow.created_at.desc(), TokenRow.id)
        if project != EVERY_PROJECT:
            query = query.where(TokenRow.project == project)
        with self._database.read() as session:
            return [_token(row) for row in session.scalars(query)]

    def revoke(self, token: str, project: str = EVERY_PROJECT) -> Token:
        """The token, worthless from now on, as are the sessions that it opened; once revoked, it stays as it is.

        Raises NotFound where the project ("*": any) has no such token.
        """
        with self._database.write() as session:
            row = session.get(TokenRow, token) if ID.fullmatch(token) else None
            if row is None or project not in (EVERY_PROJECT, row.project):
                raise NotFound(f"token {token[:80]!r} is not known", hint="gradassay token list names them")
            row.revoked_at = row.revoked_at or datetime.now(UTC)
            session.flush()
            return _token(row)

    def forget_expired(self, *, by: str) -> None:
        """Deletes the expired tokens that `by` made: a job's is of no interest to anybody when the job is over."""
        with self._database.write() as session:
            expired = TokenRow.expires_at <= datetime.now(UTC)
            session.execute(delete(TokenRow).where(TokenRow.created_by == by, expired))


def _check(name: str, project: str, scopes: list[Scope], lifetime: timedelta | None) -> None:
    if not name.strip() or not name.isprintable() or len(name) > NAME_LENGTH:
        raise UsageError(
            f"{name[:NAME_LENGTH]!r} cannot name a token",
            hint=f"say what the token is for, in 1 to {NAME_LENGTH} printable characters",
        )
    if project != EVERY_PROJECT:
        check_project(project)
    elif Scope.POST in scopes:
        raise UsageError(
            "a token that posts belongs to one project, not to all of them",
            hint="name the project that its runs and goldens are to be kept in",
        )
    if lifetime is not None and lifetime <= timedelta():
        raise UsageError(f"a lifetime of {lifetime} has ended already", hint="give one that lies ahead")


def _token(row: TokenRow) -> Token:
    return Token(
        id=row.id,
        name=row.name,
        project=row.project,
        scopes=tuple(Scope(scope) for scope in row.scopes),
        created_by=row.created_by,
        created_at=row.created_at,
        expires_at=row.expires_at,
        revoked_at=row.revoked_at,
        used_at=row.used_at,
    )
