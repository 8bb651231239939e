"""Who gets in, over a real socket."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

import httpx2
import pytest
from sqlalchemy import update

from gradassay.api.auth.guard import COOKIE, CSRF_HEADER
from gradassay.api.database.tables import TokenRow
from served import Service

RUNS = "/api/v1/runs"
TOKENS = "/api/v1/tokens"
PAGE = {"Accept": "text/html,application/xhtml+xml"}


def assert_refused(answer: httpx2.Response) -> None:
    assert (answer.status_code, answer.json()["code"]) == (401, "unauthorised")
    assert answer.headers["www-authenticate"].startswith("Bearer")


@contextmanager
def operator(service: Service) -> Iterator[httpx2.Client]:
    """A browser that followed a login link."""
    with httpx2.Client(base_url=service.url) as browser:
        opened = browser.get(service.parts.logins.link(who="ada", project="default"))
        assert (opened.status_code, opened.headers["location"]) == (303, "/")
        yield browser


def csrf(service: Service, browser: httpx2.Client) -> dict[str, str]:
    caller = service.parts.logins.find(browser.cookies[COOKIE])
    assert caller is not None
    assert caller.csrf is not None
    return {CSRF_HEADER: caller.csrf}


def test_token_reads(service: Service, mint: Callable[..., dict[str, str]]):
    assert service.anonymous.get(RUNS, headers=mint(service)).status_code == 200


@pytest.mark.parametrize(
    "header",
    [
        "",
        "Bearer",
        "Bearer gat_",
        "Bearer gat_nonsense",
        "Basic YTpi",
        "gat_nonsense",
        "Bearer \xe9",
        "Bearer a b",
    ],
)
def test_what_is_no_token_does_not(service: Service, header: str):
    assert_refused(service.anonymous.get(RUNS, headers={"Authorization": header.encode("latin-1")}))


def test_valid_token_by_another_scheme_does_not(service: Service, mint: Callable[..., dict[str, str]]):
    secret = mint(service)["Authorization"].removeprefix("Bearer ")
    for header in (secret, f"Basic {secret}", f"Bearer: {secret}"):
        assert_refused(service.anonymous.get(RUNS, headers={"Authorization": header}))
    assert_refused(service.anonymous.get(RUNS, params={"token": secret, "access_token": secret}))
    assert_refused(service.anonymous.get(RUNS, headers={"Cookie": f"{COOKIE}={secret}"}))


@pytest.mark.parametrize(
    "values", [{"expires_at": datetime(2020, 1, 1, tzinfo=UTC)}, {"revoked_at": datetime.now(UTC)}]
)
def test_token_that_is_over_does_not(service: Service, mint: Callable[..., dict[str, str]], values: dict[str, Any]):
    headers = mint(service, "post", "review", "admin", name="over")
    assert service.anonymous.get(RUNS, headers=headers).status_code == 200
    with service.parts.database.write() as session:
        session.execute(update(TokenRow).where(TokenRow.name == "over").values(**values))
    assert_refused(service.anonymous.get(RUNS, headers=headers))


def test_bad_token_is_not_saved_by_a_good_session(service: Service):
    with operator(service) as browser:
        assert browser.get(RUNS).status_code == 200
        assert_refused(browser.get(RUNS, headers={"Authorization": "Bearer gat_nonsense"}))


def raw(service: Service, request: str) -> bytes:
    """What the service answers to these very bytes."""
    with socket.create_connection(service.address, timeout=30) as connection:
        connection.sendall(request.replace("\n", "\r\n").encode())
        return b"".join(iter(lambda: connection.recv(65536), b""))


def test_body_is_not_waited_for_before_the_caller_is_known(service: Service):
    headers = "Host: x\nConnection: close\nContent-Type: application/json\nContent-Length: 1000000000"
    answer = raw(service, f"POST {TOKENS} HTTP/1.1\n{headers}\n\n")
    assert answer.split()[1] == b"401"


def test_browser_is_sent_to_the_login_and_back(service: Service):
    answer = service.anonymous.get("/runs?strategy=ddp&x=1", headers=PAGE)
    assert (answer.status_code, answer.headers["location"]) == (303, "/login?next=%2Fruns%3Fstrategy%3Dddp%26x%3D1")
    assert service.anonymous.get("/", headers=PAGE).headers["location"] == "/login"
    assert service.anonymous.post("/logout", headers=PAGE).headers["location"] == "/login"


def test_part_of_a_page_sends_the_whole_page_to_the_login(service: Service):
    answer = service.anonymous.get("/runs", headers=PAGE | {"HX-Request": "true"})
    assert (answer.status_code, answer.headers["hx-redirect"]) == (401, "/login")


def test_machines_are_not_sent_anywhere(service: Service):
    assert_refused(service.anonymous.get(RUNS, headers=PAGE))
    assert_refused(service.anonymous.get("/runs"))
    assert_refused(service.anonymous.get("/openapi.json"))
    assert_refused(service.anonymous.get("/metrics"))
    assert_refused(service.anonymous.get("/nowhere"))


@pytest.mark.parametrize(
    "path", ["/static/../api/v1/runs", "/static/%2e%2e/api/v1/runs", "/login/../api/v1/runs", "//api/v1/runs"]
)
def test_no_way_around_through_what_is_public(service: Service, path: str):
    answer = raw(service, f"GET {path} HTTP/1.1\nHost: x\nConnection: close\n\n")
    assert answer.split()[1] in (b"401", b"404")
    assert b'"items"' not in answer


def test_session_changes_things_only_with_its_csrf_token(service: Service):
    wanted = {"name": "ci", "project": "default", "scopes": ["post"]}
    with operator(service) as browser, operator(service) as other:
        assert browser.post(TOKENS, json=wanted).status_code == 403
        assert browser.post(TOKENS, json=wanted, headers={CSRF_HEADER: ""}).status_code == 403
        assert browser.post(TOKENS, json=wanted, headers={CSRF_HEADER: "nonsense"}).status_code == 403
        assert browser.post(TOKENS, json=wanted, headers=csrf(service, other)).status_code == 403
        refused = browser.post(TOKENS, json=wanted | {"csrf": csrf(service, browser)[CSRF_HEADER]})
        assert (refused.status_code, refused.json()["code"]) == (403, "forbidden")
        assert [token.name for token in service.parts.tokens.of_project()] == ["test"]
        assert browser.post(TOKENS, json=wanted, headers=csrf(service, browser)).status_code == 201


def test_form_carries_the_csrf_token_in_a_field(service: Service):
    with operator(service) as browser:
        token = csrf(service, browser)[CSRF_HEADER]
        assert browser.post("/logout", data={"csrf": "nonsense"}).status_code == 403
        assert browser.post("/logout", files={"csrf": token}).status_code == 403
        assert browser.post("/logout", params={"csrf": token}).status_code == 403
        assert browser.post("/logout", data={"csrf": token}).status_code == 303


@pytest.mark.parametrize(
    "headers",
    [
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
        {"Origin": "https://elsewhere.example"},
        {"Origin": "null"},
        {"Origin": ""},
        {"Sec-Fetch-Site": "cross-site", "Origin": "SELF"},
    ],
)
def test_session_changes_nothing_for_another_site(service: Service, headers: dict[str, str]):
    sent = {name: value.replace("SELF", service.url) for name, value in headers.items()}
    with operator(service) as browser:
        answer = browser.post("/logout", headers=csrf(service, browser) | sent)
        assert answer.status_code == 403
        assert "another site" in answer.json()["detail"]
        assert browser.get(RUNS, headers=sent).status_code == 200


@pytest.mark.parametrize(
    "headers", [{"Sec-Fetch-Site": "same-origin"}, {"Sec-Fetch-Site": "none"}, {"Origin": "SELF"}, {}]
)
def test_session_changes_things_from_its_own_pages(service: Service, headers: dict[str, str]):
    sent = {name: value.replace("SELF", service.url) for name, value in headers.items()}
    with operator(service) as browser:
        assert browser.post("/logout", headers=csrf(service, browser) | sent).status_code == 303


def test_token_needs_no_csrf_token(service: Service, mint: Callable[..., dict[str, str]]):
    sent = mint(service, "admin") | {"Origin": "https://elsewhere.example", "Sec-Fetch-Site": "cross-site"}
    answer = service.anonymous.delete(f"{TOKENS}/{'0' * 16}", headers=sent)
    assert (answer.status_code, answer.json()["code"]) == (404, "not-found")
