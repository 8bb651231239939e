from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import select, update

from gradassay.api.auth.logins import Logins
from gradassay.api.auth.scope import Scope
from gradassay.api.auth.secret import hashed
from gradassay.api.auth.tokens import Token, Tokens
from gradassay.api.database.database import Database
from gradassay.api.database.tables import LoginRow, TokenRow
from gradassay.goldens.errors import Unauthorised


@pytest.fixture
def logins(database: Database) -> Logins:
    return Logins(database, idle=timedelta(hours=1), longest=timedelta(hours=3))


@pytest.fixture
def token(tokens: Tokens) -> Token:
    return tokens.create(name="ada", scopes=[Scope.REVIEW], by="ops", project="mine")[0]


def linked(logins: Logins) -> str:
    path = logins.link(who="ada", project="mine")
    assert path.startswith("/login/")
    return path.removeprefix("/login/")


def row_of(database: Database, secret: str) -> LoginRow:
    with database.read() as session:
        return session.scalars(select(LoginRow).where(LoginRow.hash == hashed(secret))).one()


def change(database: Database, secret: str, **values: Any) -> None:
    with database.write() as session:
        session.execute(update(LoginRow).where(LoginRow.hash == hashed(secret)).values(**values))


def test_link_opens_the_operators_session(logins: Logins):
    caller = logins.find(logins.follow(linked(logins)).secret)
    assert caller is not None
    assert (caller.who, caller.project, caller.scopes) == ("ada", "mine", frozenset(Scope))
    assert caller.operator
    assert caller.csrf


def test_link_works_once(logins: Logins):
    secret = linked(logins)
    logins.follow(secret)
    with pytest.raises(Unauthorised, match="was used"):
        logins.follow(secret)


def test_link_opens_one_session_for_many_at_once(logins: Logins):
    secret = linked(logins)

    def follow(_: int) -> bool:
        try:
            logins.follow(secret)
        except Unauthorised:
            return False
        return True

    with ThreadPoolExecutor(8) as pool:
        assert sorted(pool.map(follow, range(8))) == [False] * 7 + [True]


def test_link_lasts_ten_minutes(logins: Logins, database: Database):
    secret = linked(logins)
    left = row_of(database, secret).expires_at - datetime.now(UTC)
    assert timedelta(minutes=9) < left <= timedelta(minutes=10)
    change(database, secret, expires_at=datetime.now(UTC))
    with pytest.raises(Unauthorised):
        logins.follow(secret)


def test_neither_link_nor_session_passes_for_the_other(logins: Logins):
    secret = linked(logins)
    assert logins.find(secret) is None
    with pytest.raises(Unauthorised):
        logins.follow(logins.follow(secret).secret)


def test_secrets_are_kept_as_hashes(logins: Logins, database: Database):
    link = linked(logins)
    session = logins.follow(link).secret
    with database.read() as transaction:
        rows = transaction.scalars(select(LoginRow)).all()
    kept = [str(value) for row in rows for value in vars(row).values()]
    assert not [value for value in kept if link in value or session in value]


def test_session_of_a_token_may_what_the_token_may(logins: Logins, token: Token):
    caller = logins.find(logins.open(token).secret)
    assert caller is not None
    assert (caller.who, caller.project, caller.scopes) == ("ada", "mine", {Scope.REVIEW})
    assert not caller.operator
    assert caller.csrf


def test_session_ends_with_its_token(logins: Logins, tokens: Tokens, token: Token, database: Database):
    revoked, expired = logins.open(token).secret, logins.open(token).secret
    with database.write() as session:
        session.execute(update(TokenRow).values(expires_at=datetime.now(UTC)))
    assert logins.find(expired) is None
    with database.write() as session:
        session.execute(update(TokenRow).values(expires_at=None))
    assert logins.find(revoked) is not None
    tokens.revoke(token.id)
    assert logins.find(revoked) is None


def test_closed_session_is_over(logins: Logins, token: Token):
    first, second = logins.open(token).secret, logins.open(token).secret
    logins.close(first)
    logins.close(first)
    assert logins.find(first) is None
    assert logins.find(second) is not None


def test_closing_leaves_links_alone(logins: Logins):
    secret = linked(logins)
    logins.close(secret)
    assert logins.find(logins.follow(secret).secret) is not None


def test_use_moves_the_end_on(logins: Logins, token: Token, database: Database):
    secret = logins.open(token).secret
    at = datetime.now(UTC)
    first = row_of(database, secret).expires_at
    assert logins.find(secret) is not None
    assert row_of(database, secret).expires_at == first
    change(database, secret, used_at=at - timedelta(minutes=30), expires_at=at + timedelta(minutes=30))
    assert logins.find(secret) is not None
    assert row_of(database, secret).expires_at >= at + timedelta(hours=1)


def test_idle_session_is_over(logins: Logins, token: Token, database: Database):
    secret = logins.open(token).secret
    change(database, secret, used_at=datetime.now(UTC) - timedelta(hours=1), expires_at=datetime.now(UTC))
    assert logins.find(secret) is None


def test_busy_session_ends_at_last(logins: Logins, token: Token, database: Database):
    opened = logins.open(token)
    began = datetime.now(UTC) - timedelta(hours=2, minutes=30)
    change(database, opened.secret, created_at=began, used_at=began)
    assert logins.find(opened.secret) is not None
    assert row_of(database, opened.secret).expires_at == began + timedelta(hours=3)


def test_session_is_not_longer_than_its_longest(database: Database, token: Token):
    logins = Logins(database, idle=timedelta(hours=5), longest=timedelta(hours=1))
    opened = logins.open(token)
    assert row_of(database, opened.secret).expires_at == opened.expires_at


def test_what_has_ended_is_forgotten(logins: Logins, token: Token, database: Database):
    ended = [logins.open(token).secret, linked(logins)]
    for secret in ended:
        change(database, secret, expires_at=datetime.now(UTC))
    kept = logins.open(token).secret
    with database.read() as session:
        assert session.scalars(select(LoginRow.hash)).all() == [hashed(kept)]
