from __future__ import annotations

import base64
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import select, update

from gradassay.api.auth.scope import Scope
from gradassay.api.auth.tokens import Token, Tokens
from gradassay.api.database.database import Database
from gradassay.api.database.tables import TokenRow
from gradassay.goldens.errors import NotFound, UsageError


def made(tokens: Tokens, *scopes: Scope, **given: Any) -> tuple[Token, str]:
    return tokens.create(**{"name": "ci", "scopes": scopes, "by": "ada", "project": "default", **given})


def change(database: Database, token: Token, **values: Any) -> None:
    with database.write() as session:
        session.execute(update(TokenRow).where(TokenRow.id == token.id).values(**values))


def test_secret_finds_its_token_and_says_what_it_may(tokens: Tokens):
    token, secret = made(tokens, Scope.REVIEW, Scope.POST)
    found = tokens.find(secret)
    assert found is not None
    assert (found.id, found.name, found.created_by) == (token.id, "ci", "ada")
    assert found.caller.scopes == {Scope.POST, Scope.REVIEW}
    assert (found.caller.who, found.caller.project) == ("ci", "default")
    assert found.caller.csrf is None
    assert not found.caller.operator


def test_secret_is_random_and_kept_nowhere(tokens: Tokens, database: Database):
    (_, first), (_, second) = made(tokens), made(tokens)
    assert first != second
    assert first.startswith("gat_")
    assert len(base64.urlsafe_b64decode(first.removeprefix("gat_") + "=")) == 32
    with database.read() as session:
        rows = session.scalars(select(TokenRow)).all()
    kept = [str(value) for row in rows for value in vars(row).values()]
    assert not [value for value in kept for secret in (first, second) if secret in value or secret[4:] in value]


@pytest.mark.parametrize("wrong", ["", "gat_", "nonsense", "gat_" + "A" * 43, "\ud800", "gat_\x00"])
def test_what_is_no_secret_finds_nothing(tokens: Tokens, wrong: str):
    made(tokens)
    assert tokens.find(wrong) is None


def test_part_of_a_secret_finds_nothing(tokens: Tokens):
    _, secret = made(tokens)
    assert tokens.find(secret[:-1]) is None
    assert tokens.find(secret.removeprefix("gat_")) is None
    assert tokens.find(secret.swapcase()) is None


def test_revoked_token_finds_nothing_and_stays_revoked(tokens: Tokens):
    token, secret = made(tokens)
    revoked = tokens.revoke(token.id)
    assert revoked.revoked_at is not None
    assert tokens.find(secret) is None
    assert tokens.revoke(token.id).revoked_at == revoked.revoked_at


def test_token_expires(tokens: Tokens, database: Database):
    token, secret = made(tokens, lifetime=timedelta(hours=1))
    assert token.expires_at is not None
    assert timedelta() < token.expires_at - datetime.now(UTC) <= timedelta(hours=1)
    assert tokens.find(secret) is not None
    change(database, token, expires_at=datetime.now(UTC))
    assert tokens.find(secret) is None


def test_last_use_is_written_at_most_once_a_minute(tokens: Tokens, database: Database):
    token, secret = made(tokens)
    assert token.used_at is None

    def used() -> datetime | None:
        tokens.find(secret)
        return tokens.of_project()[0].used_at

    first = used()
    assert first is not None
    assert used() == first
    long_ago = first - timedelta(seconds=61)
    change(database, token, used_at=long_ago)
    later = used()
    assert later is not None
    assert later >= first


def test_tokens_are_listed_newest_first_by_project(tokens: Tokens):
    ids = [made(tokens, project=project)[0].id for project in ("a", "b", "*")]
    assert [token.id for token in tokens.of_project()] == ids[::-1]
    assert [token.id for token in tokens.of_project("a")] == ids[:1]


def test_token_of_another_project_cannot_be_revoked(tokens: Tokens):
    for project in ("theirs", "*"):
        token, secret = made(tokens, project=project)
        with pytest.raises(NotFound, match=token.id):
            tokens.revoke(token.id, "mine")
        assert tokens.find(secret) is not None


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"name": " "}, "cannot name a token"),
        ({"name": "a\nb"}, "cannot name a token"),
        ({"name": "a\x00"}, "cannot name a token"),
        ({"name": "a" * 129}, "cannot name a token"),
        ({"project": ""}, "cannot name a project"),
        ({"project": "a/b"}, "cannot name a project"),
        ({"project": "a\n"}, "cannot name a project"),
        ({"project": "a" * 65}, "cannot name a project"),
        ({"project": "*", "scopes": [Scope.POST]}, "belongs to one project"),
        ({"lifetime": timedelta()}, "has ended already"),
    ],
)
def test_token_that_makes_no_sense_is_not_made(tokens: Tokens, given: dict[str, Any], said: str):
    with pytest.raises(UsageError, match=said):
        made(tokens, **given)
    assert tokens.of_project() == []


def test_expired_tokens_of_one_maker_are_forgotten(tokens: Tokens, database: Database):
    expired, _ = made(tokens, by="https://ci", lifetime=timedelta(minutes=1))
    change(database, expired, expires_at=datetime.now(UTC) - timedelta(seconds=1))
    kept = [
        made(tokens, by="https://ci", lifetime=timedelta(minutes=1))[0].id,
        made(tokens, by="https://ci")[0].id,
    ]
    other, _ = made(tokens, by="ada", lifetime=timedelta(minutes=1))
    change(database, other, expires_at=datetime.now(UTC) - timedelta(seconds=1))
    tokens.forget_expired(by="https://ci")
    assert {token.id for token in tokens.of_project()} == {*kept, other.id}
