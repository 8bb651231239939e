from __future__ import annotations

from collections.abc import Callable

import httpx2
import pytest
from fastapi.testclient import TestClient

from gradassay.api.app import create_app
from gradassay.api.auth.guard import COOKIE, CSRF_HEADER
from gradassay.api.routes.session import safe_path
from served import Service

RUNS = "/api/v1/runs"


@pytest.fixture
def token(service: Service, mint: Callable[..., dict[str, str]]) -> str:
    return mint(service, "review", name="ada")["Authorization"].removeprefix("Bearer ")


def test_link_logs_in_once(service: Service):
    path = service.parts.logins.link(who="ada", project="default")
    answer = service.anonymous.get(path)
    assert (answer.status_code, answer.headers["location"]) == (303, "/")
    assert answer.headers["cache-control"] == "no-store"
    assert service.anonymous.get(RUNS).status_code == 200
    with httpx2.Client(base_url=service.url) as late:
        again = late.get(path)
        assert again.status_code == 401
        assert "this login link was used" in again.text
        assert COOKIE not in again.cookies
        assert late.get(RUNS).status_code == 401


def test_link_that_was_only_looked_at_still_works(service: Service):
    path = service.parts.logins.link(who="ada", project="default")
    assert service.anonymous.head(path).status_code == 405
    assert service.anonymous.get(path).status_code == 303


def test_invented_link_does_not_work(service: Service):
    assert service.anonymous.get("/login/nonsense").status_code == 401


def test_token_logs_in_and_leads_to_the_page_that_was_wanted(service: Service, token: str):
    shown = service.anonymous.get("/login", params={"next": "/runs?strategy=ddp"})
    assert shown.status_code == 200
    assert 'value="/runs?strategy=ddp"' in shown.text
    answer = service.anonymous.post("/login", data={"token": f" {token}\n", "next": "/runs?strategy=ddp"})
    assert (answer.status_code, answer.headers["location"]) == (303, "/runs?strategy=ddp")
    assert service.anonymous.get(RUNS).status_code == 200
    assert service.anonymous.get("/api/v1/tokens").status_code == 403


@pytest.mark.parametrize("wrong", ["", "gat_nonsense", "gat_" + "A" * 43])
def test_wrong_token_does_not_log_in(service: Service, wrong: str):
    answer = service.anonymous.post("/login", data={"token": wrong, "next": "/runs"})
    assert answer.status_code == 401
    assert "unknown, revoked or expired" in answer.text
    assert 'value="/runs"' in answer.text
    assert wrong == "" or wrong not in answer.text
    assert COOKIE not in answer.cookies


def test_other_site_cannot_log_somebody_in(service: Service, token: str):
    answer = service.anonymous.post("/login", data={"token": token}, headers={"Sec-Fetch-Site": "cross-site"})
    assert answer.status_code == 403
    assert COOKIE not in answer.cookies


def test_cookie_is_for_the_browser_alone(service: Service, token: str):
    cookie = service.anonymous.post("/login", data={"token": token}).headers["set-cookie"].lower()
    assert "httponly" in cookie
    assert "samesite=lax" in cookie
    assert "path=/" in cookie
    assert "domain" not in cookie
    assert token.lower() not in cookie
    assert "secure" not in cookie


def test_cookie_is_secure_where_the_service_is(service: Service, token: str):
    with TestClient(create_app(service=service.parts), base_url="https://gradassay.example") as client:
        answer = client.post("/login", data={"token": token}, follow_redirects=False)
        assert "secure" in answer.headers["set-cookie"].lower()


def test_session_ends_with_its_token(service: Service, token: str):
    service.anonymous.post("/login", data={"token": token})
    assert service.anonymous.get(RUNS).status_code == 200
    ada = next(known for known in service.parts.tokens.of_project() if known.name == "ada")
    service.parts.tokens.revoke(ada.id)
    assert service.anonymous.get(RUNS).status_code == 401


def test_logging_out_ends_the_session_for_good(service: Service, token: str):
    service.anonymous.post("/login", data={"token": token})
    secret = service.anonymous.cookies[COOKIE]
    caller = service.parts.logins.find(secret)
    assert caller is not None
    answer = service.anonymous.post("/logout", headers={CSRF_HEADER: str(caller.csrf)})
    assert (answer.status_code, answer.headers["location"]) == (303, "/login")
    assert COOKIE not in service.anonymous.cookies
    assert service.anonymous.get(RUNS, headers={"Cookie": f"{COOKIE}={secret}"}).status_code == 401


def test_logging_in_again_ends_the_session_before(service: Service, token: str):
    service.anonymous.post("/login", data={"token": token})
    before = service.anonymous.cookies[COOKIE]
    service.anonymous.post("/login", data={"token": token})
    assert service.anonymous.cookies[COOKIE] != before
    assert service.parts.logins.find(before) is None


@pytest.mark.parametrize("path", ["/", "/runs", "/runs?strategy=ddp&dtype=bf16#top", "/goldens/moe-tiny%2Ffloat32"])
def test_own_paths_are_led_to(path: str):
    assert safe_path(path) == path


@pytest.mark.parametrize(
    "path",
    [
        "",
        "runs",
        "https://elsewhere.example",
        "//elsewhere.example",
        "///elsewhere.example",
        "/\\elsewhere.example",
        "\\\\elsewhere.example",
        "/\t/elsewhere.example",
        "/\n/elsewhere.example",
        " //elsewhere.example",
        "javascript:alert(1)",
        "/ünicode",
        "/" + "a" * 2000,
    ],
)
def test_no_other_address_is_led_to(path: str):
    assert safe_path(path) == "/"
