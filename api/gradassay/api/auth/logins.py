"""Browser sessions, and the links that open them once."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from sqlalchemy import delete, update
from sqlalchemy.orm import Session as Transaction

from gradassay.api.auth.caller import Caller
from gradassay.api.auth.scope import Scope
from gradassay.api.auth.secret import hashed, new_secret
from gradassay.api.auth.tokens import USED_EVERY, Token
from gradassay.api.database.database import Database
from gradassay.api.database.tables import LoginRow, TokenRow
from gradassay.goldens.errors import Unauthorised

LINK_LIFETIME = timedelta(minutes=10)
IDLE = timedelta(hours=12)
LONGEST = timedelta(days=7)


@dataclass(frozen=True, slots=True, kw_only=True)
class Opened:
    """A session that was opened just now. secret: for the cookie, told this once; expires_at: when it ends at the latest."""

    secret: str
    expires_at: datetime


class Logins:
    """All links and sessions of a database. A session ends after `idle` without a request, and `longest` after it began."""

    def __init__(self, database: Database, *, idle: timedelta = IDLE, longest: timedelta = LONGEST) -> None:
        self._database = database
        self._idle = idle
        self._longest = longest

    def link(self, *, who: str, project: str) -> str:
        """The path of a link that opens one session with every scope, within ten minutes.

        Only for whoever is at the service's own machine: such a session may create tokens.
        """
        secret, at = new_secret(), datetime.now(UTC)
        with self._database.write() as transaction:
            _forget_expired(transaction, at)
            transaction.add(_row(secret, "link", who=who, project=project, at=at, expires_at=at + LINK_LIFETIME))
        return f"/login/{secret}"

    def follow(self, secret: str) -> Opened:
        """The session that a link opens; raises Unauthorised where it is unknown, too old or was used."""
        at = datetime.now(UTC)
        used = (
            update(LoginRow)
            .where(
                LoginRow.hash == hashed(secret),
                LoginRow.kind == "link",
                LoginRow.used_at.is_(None),
                LoginRow.expires_at > at,
            )
            .values(used_at=at)
            .returning(LoginRow.who, LoginRow.project)
        )
        with self._database.write() as transaction:
            found = transaction.execute(used).one_or_none()
            if found is None:
                raise Unauthorised(
                    "this login link was used, or is older than ten minutes",
                    hint="gradassay token link, on the service's machine, makes another",
                )
            return self._open(transaction, who=found.who, project=found.project, at=at)

    def open(self, token: Token) -> Opened:
        """A session that may do what the token may, while the token is valid."""
        with self._database.write() as transaction:
            return self._open(transaction, who=token.name, project=token.project, at=datetime.now(UTC), token=token.id)

    def find(self, secret: str) -> Caller | None:
        """The caller of a session that has not ended, or None; its end moves on, written at most once a minute."""
        at = datetime.now(UTC)
        with self._database.read() as transaction:
            row = transaction.get(LoginRow, hashed(secret))
            if row is None or row.kind != "session" or row.expires_at <= at:
                return None
            scopes = frozenset(Scope(scope) for scope in row.scopes)
            if row.token is not None:
                token = transaction.get(TokenRow, row.token)
                if token is None or token.revoked_at or (token.expires_at and token.expires_at <= at):
                    return None
                scopes = frozenset(Scope(scope) for scope in token.scopes)
        if row.used_at is None or row.used_at <= at - USED_EVERY:
            self._slide(row, at)
        return Caller(who=row.who, project=row.project, scopes=scopes, csrf=row.csrf, operator=row.token is None)

    def close(self, secret: str) -> None:
        """Ends a session; one that has ended already stays so."""
        with self._database.write() as transaction:
            transaction.execute(delete(LoginRow).where(LoginRow.hash == hashed(secret), LoginRow.kind == "session"))

    def _open(
        self, transaction: Transaction, *, who: str, project: str, at: datetime, token: str | None = None
    ) -> Opened:
        secret = new_secret()
        _forget_expired(transaction, at)
        row = _row(secret, "session", who=who, project=project, at=at, expires_at=at + min(self._idle, self._longest))
        row.token, row.used_at = token, at
        transaction.add(row)
        return Opened(secret=secret, expires_at=at + self._longest)

    def _slide(self, row: LoginRow, at: datetime) -> None:
        until = min(at + self._idle, row.created_at + self._longest)
        with self._database.write() as transaction:
            # The condition leaves an ended session ended, whoever ended it meanwhile.
            moved = update(LoginRow).where(LoginRow.hash == row.hash, LoginRow.expires_at > at)
            transaction.execute(moved.values(used_at=at, expires_at=until))


def _row(secret: str, kind: str, *, who: str, project: str, at: datetime, expires_at: datetime) -> LoginRow:
    return LoginRow(
        hash=hashed(secret),
        kind=kind,
        who=who,
        project=project,
        scopes=[str(scope) for scope in Scope],
        csrf=new_secret(),
        created_at=at,
        expires_at=expires_at,
    )


def _forget_expired(transaction: Transaction, at: datetime) -> None:
    transaction.execute(delete(LoginRow).where(LoginRow.expires_at <= at))
