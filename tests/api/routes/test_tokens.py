from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx2
import pytest

from gradassay.api.auth.guard import COOKIE, CSRF_HEADER
from issuers import issuing
from served import Service, serving

TOKENS = "/api/v1/tokens"
RUNS = "/api/v1/runs"
WANTED = {"name": "ci", "project": "default", "scopes": ["post"]}


@pytest.fixture
def browser(service: Service) -> Iterator[httpx2.Client]:
    """A browser that followed a login link; its requests carry its CSRF token."""
    with httpx2.Client(base_url=service.url) as client:
        client.get(service.parts.logins.link(who="ada", project="default"))
        caller = service.parts.logins.find(client.cookies[COOKIE])
        assert caller is not None
        client.headers[CSRF_HEADER] = str(caller.csrf)
        yield client


def bearer(secret: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {secret}"}


def test_created_token_is_shown_once(service: Service, browser: httpx2.Client):
    answer = browser.post(TOKENS, json={**WANTED, "lifetime_s": 3600})
    created = answer.json()
    assert answer.status_code == 201
    assert answer.headers["cache-control"] == "no-store"
    assert (created["name"], created["project"], created["scopes"]) == ("ci", "default", ["post"])
    assert created["created_by"] == "ada"
    left = datetime.fromisoformat(created["expires_at"]) - datetime.now(UTC)
    assert timedelta(minutes=59) < left <= timedelta(hours=1)
    assert service.anonymous.get(RUNS, headers=bearer(created["token"])).status_code == 200
    listed = browser.get(TOKENS)
    assert created["token"] not in listed.text
    assert created["id"] in {token["id"] for token in listed.json()}


@pytest.mark.parametrize("scopes", [["admin"], ["post", "review", "admin"]])
@pytest.mark.parametrize("wanted", [WANTED, {"name": "reader", "project": "default"}])
def test_no_token_creates_tokens(
    service: Service, mint: Callable[..., dict[str, str]], scopes: list[str], wanted: dict[str, Any]
):
    headers = mint(service, *scopes)
    answer = service.anonymous.post(TOKENS, json=wanted, headers=headers)
    assert (answer.status_code, answer.json()["code"]) == (403, "forbidden")
    assert "a token cannot create tokens" in answer.json()["detail"]
    assert {token.name for token in service.parts.tokens.of_project()} == {"test"}


def test_no_session_of_a_token_creates_tokens(service: Service, mint: Callable[..., dict[str, str]]):
    secret = mint(service, "post", "review", "admin")["Authorization"].removeprefix("Bearer ")
    service.anonymous.post("/login", data={"token": secret})
    caller = service.parts.logins.find(service.anonymous.cookies[COOKIE])
    assert caller is not None
    answer = service.anonymous.post(TOKENS, json=WANTED, headers={CSRF_HEADER: str(caller.csrf)})
    assert answer.status_code == 403
    assert "a token cannot create tokens" in answer.json()["detail"]


@pytest.mark.parametrize("scopes", [(), ("post",), ("review",), ("post", "review")])
def test_only_administrators_see_and_revoke_tokens(
    service: Service, mint: Callable[..., dict[str, str]], scopes: tuple[str, ...]
):
    headers = mint(service, *scopes)
    token = service.parts.tokens.of_project()[0].id
    assert service.anonymous.get(TOKENS, headers=headers).status_code == 403
    assert service.anonymous.delete(f"{TOKENS}/{token}", headers=headers).status_code == 403


def test_administrator_revokes_tokens_of_the_project_alone(service: Service, mint: Callable[..., dict[str, str]]):
    admin = mint(service, "admin", project="mine", name="admin")
    mine, theirs = mint(service, project="mine", name="mine"), mint(service, project="theirs", name="theirs")
    every = mint(service, project="*", name="every")
    ids = {token.name: token.id for token in service.parts.tokens.of_project()}
    assert {token["name"] for token in service.anonymous.get(TOKENS, headers=admin).json()} == {"admin", "mine"}
    for name in ("theirs", "every"):
        assert service.anonymous.delete(f"{TOKENS}/{ids[name]}", headers=admin).status_code == 404
    revoked = service.anonymous.delete(f"{TOKENS}/{ids['mine']}", headers=admin)
    assert revoked.status_code == 200
    assert revoked.json()["revoked_at"]
    assert service.anonymous.delete(f"{TOKENS}/{ids['mine']}", headers=admin).json() == revoked.json()
    statuses = [service.anonymous.get(RUNS, headers=headers).status_code for headers in (mine, theirs, every)]
    assert statuses == [401, 200, 200]


def test_operator_sees_and_revokes_all(service: Service, browser: httpx2.Client, mint: Callable[..., dict[str, str]]):
    headers = mint(service, project="theirs", name="theirs")
    listed = {token["name"]: token["id"] for token in browser.get(TOKENS).json()}
    assert browser.delete(f"{TOKENS}/{listed['theirs']}").status_code == 200
    assert service.anonymous.get(RUNS, headers=headers).status_code == 401


@pytest.mark.parametrize("token", ["0" * 16, "nonsense", "%00", "a" * 3000, "..", "ünicode"])
def test_unknown_token_is_not_found(service: Service, token: str):
    assert service.client.delete(f"{TOKENS}/x{token}").status_code == 404


@pytest.mark.parametrize(
    "change",
    [
        {"name": ""},
        {"name": "\x00"},
        {"project": "a/b"},
        {"project": "*"},
        {"scopes": ["root"]},
        {"scopes": ["post"] * 4},
        {"lifetime_s": 0},
        {"lifetime_s": 10**12},
        {"lifetime_s": "soon"},
        {"name": None},
    ],
)
def test_token_that_makes_no_sense_is_not_created(service: Service, browser: httpx2.Client, change: dict[str, Any]):
    answer = browser.post(TOKENS, json=WANTED | change)
    assert (answer.status_code, answer.json()["code"]) == (400, "usage")
    assert [token.name for token in service.parts.tokens.of_project()] == ["test"]


def test_job_posts_with_its_own_identity(tmp_path: Path, record: bytes):
    with (
        issuing() as issuer,
        serving(tmp_path, uploads=tmp_path, oidc_issuers=(issuer.settings,)) as service,
    ):
        answer = service.anonymous.post(f"{TOKENS}/exchange", json={"token": issuer.identity()})
        assert answer.status_code == 201
        assert answer.headers["cache-control"] == "no-store"
        headers = bearer(answer.json()["token"])
        posted = service.anonymous.post(RUNS, content=record, headers=headers)
        assert posted.status_code == 201
        assert service.anonymous.get(f"{RUNS}/{posted.json()['id']}", headers=headers).status_code == 200
        assert service.client.get(f"{RUNS}/{posted.json()['id']}").status_code == 404
        assert service.anonymous.get(TOKENS, headers=headers).status_code == 403
        refused = service.anonymous.post(f"{TOKENS}/exchange", json={"token": issuer.identity(aud="another")})
        assert (refused.status_code, refused.json()["code"]) == (401, "unauthorised")


@pytest.mark.parametrize("token", ["", "a.b.c", "a" * 16385, "\ud800", None])
def test_nothing_is_exchanged_where_nobody_vouches(service: Service, token: str | None):
    content = b'{"token": "\\ud800"}' if token == "\ud800" else None
    answer = (
        service.anonymous.post(f"{TOKENS}/exchange", content=content, headers={"Content-Type": "application/json"})
        if content
        else service.anonymous.post(f"{TOKENS}/exchange", json={"token": token})
    )
    assert answer.status_code in (400, 401)
    assert [known.name for known in service.parts.tokens.of_project()] == ["test"]
