"""`gradassay token` on the database of a service."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from gradassay.api.auth.logins import Logins
from gradassay.api.auth.scope import Scope
from gradassay.api.auth.tokens import Tokens
from gradassay.api.database.database import Database

Run = Callable[..., Any]


def database(tmp_path: Path) -> Database:
    return Database(f"sqlite:///{tmp_path}/store/service.db")


def test_token_is_the_only_thing_on_stdout(inside: Run, tmp_path: Path):
    made = inside("token", "create", "ci", "--scope", "post", "--scope", "review", "--project", "mine", "--days", "2")
    assert made.code == 0
    token = Tokens(database(tmp_path)).find(made.out.strip())
    assert token is not None
    assert (token.name, token.project, token.scopes) == ("ci", "mine", (Scope.POST, Scope.REVIEW))
    assert token.expires_at is not None
    assert timedelta(days=1) < token.expires_at - datetime.now(UTC) <= timedelta(days=2)
    assert f"token {token.id} (ci): may read, post, review in project mine until" in made.err
    assert made.out.strip() not in made.err


def test_token_without_scopes_reads(inside: Run, tmp_path: Path):
    made = inside("--json", "token", "create", "reader")
    document = json.loads(made.out)
    token = Tokens(database(tmp_path)).find(document["token"])
    assert token is not None
    assert (document["scopes"], document["expires_at"], document["project"]) == ([], None, "default")


def test_tokens_are_listed_without_their_secrets(inside: Run):
    secrets = [inside("token", "create", name, "--project", name).out.strip() for name in ("a", "b")]
    listed = inside("token", "list")
    assert [line.split()[1] for line in listed.out.splitlines()] == ["name", "b", "a"]
    assert not [secret for secret in secrets if secret in listed.out or secret[4:] in listed.out]
    assert [token["name"] for token in json.loads(inside("--json", "token", "list", "--project", "a").out)] == ["a"]


def test_revoked_token_is_worthless(inside: Run, tmp_path: Path):
    secret = inside("token", "create", "ci").out.strip()
    tokens = Tokens(database(tmp_path))
    (token,) = tokens.of_project()
    assert "is revoked" in inside("token", "revoke", token.id).err
    assert tokens.find(secret) is None
    assert "revoked" in inside("token", "list").out


def test_link_signs_in_as_the_operator(inside: Run, tmp_path: Path):
    link = inside("token", "link", "--url", "https://gradassay.example/").out.strip()
    address, _, secret = link.rpartition("/")
    assert address == "https://gradassay.example/login"
    logins = Logins(database(tmp_path))
    caller = logins.find(logins.follow(secret).secret)
    assert caller is not None
    assert caller.operator
    assert caller.project == "default"


def test_folder_is_that_of_the_service(inside: Run, tmp_path: Path):
    secret = inside("token", "create", "ci", "--folder", tmp_path / "kept").out.strip()
    assert Tokens(Database(f"sqlite:///{tmp_path}/kept/service.db")).find(secret) is not None
    assert "ci" in inside("token", "list", "--folder", tmp_path / "kept").out


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("create", " "), "cannot name a token"),
        (("create", "ci", "--project", "a/b"), "cannot name a project"),
        (("create", "ci", "--project", "*", "--scope", "post"), "belongs to one project"),
        (("create", "ci", "--scope", "root"), "root"),
        (("create", "ci", "--days", "0"), "--days"),
        (("revoke", "0" * 16), "is not known"),
    ],
)
def test_what_makes_no_sense_is_refused(inside: Run, arguments: tuple[str, ...], said: str):
    refused = inside("token", *arguments)
    assert (refused.code, refused.out) == (2, "")
    assert said in refused.err


def test_store_without_a_folder_needs_the_database_named(gradassay: Run):
    refused = gradassay("token", "list", variables={"GRADASSAY_STORE": "http://127.0.0.1:9"})
    assert refused.code == 2
    assert "GRADASSAY_DATABASE_URL" in refused.err
