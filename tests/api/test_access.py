"""Nothing is readable or changeable beyond what is meant: every route is tried, with everything that must not be enough."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import httpx2
import pytest
from fastapi.routing import iter_route_contexts
from sqlalchemy import update

from gradassay.api.app import create_app
from gradassay.api.auth.guard import COOKIE, CSRF_HEADER
from gradassay.api.database.tables import TokenRow
from gradassay.api.ledger.deciding import Decision
from gradassay.api.settings import ServiceSettings
from gradassay.goldens.container import digest_of_file
from served import Service

PUBLIC = {
    "GET /healthz",
    "GET /readyz",
    "GET /version",
    "GET /login",
    "POST /login",
    "GET /login/{secret}",
    "GET /static/{name:path}",
    "POST /api/v1/tokens/exchange",
}
"""What anybody may ask for; a route that is not here must not answer without a token."""
READING = {"POST /logout", "POST /api/v1/assays"}
"""What changes nothing that others see, so that no scope is needed for it."""
OVER_ALL_PROJECTS = {"GET /metrics"}
SCOPE = {
    "POST /api/v1/runs": "post",
    "POST /api/v1/goldens/{name:path}/versions": "post",
    "PUT /api/v1/goldens/{name:path}/channels/{channel}": "review",
    "POST /api/v1/goldens/{name:path}/versions/{version}/rejection": "review",
    "POST /api/v1/goldens/approvals": "review",
    "POST /api/v1/ledger/{entry}/undo": "review",
    "POST /api/v1/runs/{run}/reviews": "review",
    "DELETE /api/v1/runs/{run}/reviews/{number}": "review",
    "POST /goldens/approve": "review",
    "POST /goldens/{name:path}/v{number:number}": "review",
    "POST /inbox/decisions": "review",
    "POST /ledger/{number:number}/undo": "review",
    "POST /runs/{run}/decisions": "review",
    "POST /runs/{run}/decisions/{number}/withdrawal": "review",
    "GET /api/v1/tokens": "admin",
    "POST /api/v1/tokens": "admin",
    "DELETE /api/v1/tokens/{token}": "admin",
    "POST /settings/tokens": "admin",
    "POST /settings/tokens/{token}/revoke": "admin",
}
"""What a route needs beside a token; a route that changes anything is here or in READING."""
PAGE = {"Accept": "text/html"}
SAFE = {"GET", "HEAD"}
FILLING = {"kind": "json", "number": "1"}


def every_route() -> list[str]:
    """All routes of the application, as in `GET /api/v1/runs/{run}`."""
    app = create_app(ServiceSettings(store="dir:unused"))
    found = {
        f"{method} {route.path}"
        for route in iter_route_contexts(app.routes)
        for method in route.methods or ()
        if method != "HEAD"
    }
    return sorted(found)


ROUTES = every_route()
GUARDED = [route for route in ROUTES if route not in PUBLIC]


def ask(client: httpx2.Client, route: str, headers: dict[str, str], **values: str) -> httpx2.Response:
    """The answer to a request of this route, its parameters filled in."""
    method, path = route.split()
    filled = re.sub(r"\{(\w+)(:\w+)?\}", lambda found: values.get(found[1], FILLING.get(found[1], "1")), path)
    return client.request(method, filled, headers=headers, follow_redirects=False)


def test_routes_that_are_meant_to_be_public_or_special_exist():
    assert (PUBLIC | READING | OVER_ALL_PROJECTS | SCOPE.keys()) - set(ROUTES) == set()


def test_it_is_said_of_every_route_that_changes_anything_what_it_needs():
    changing = {route for route in GUARDED if route.split()[0] not in SAFE}
    assert changing == {route for route in SCOPE if route.split()[0] not in SAFE} | READING


def test_every_route_is_closed_without_a_token(service: Service):
    for route in GUARDED:
        answer = ask(service.anonymous, route, {})
        assert (route, answer.status_code) == (route, 401)
        assert answer.headers["www-authenticate"].startswith("Bearer")
        page = ask(service.anonymous, route, PAGE)
        expected = (401,) if "/api/" in route else (303, 401)
        assert page.status_code in expected, route
        assert page.headers.get("location", "/login").startswith("/login"), route


def test_every_route_is_closed_with_what_is_no_longer_a_token(service: Service, mint: Callable[..., dict[str, str]]):
    expired = mint(service, "post", "review", "admin", name="expired")
    revoked = mint(service, "post", "review", "admin", name="revoked")
    with service.parts.database.write() as session:
        over = {"expires_at": datetime(2020, 1, 1, tzinfo=UTC)}
        session.execute(update(TokenRow).where(TokenRow.name == "expired").values(**over))
        session.execute(update(TokenRow).where(TokenRow.name == "revoked").values(revoked_at=datetime.now(UTC)))
    for route in GUARDED:
        for headers in (expired, revoked, {"Authorization": "Bearer gat_nonsense"}, {"Cookie": f"{COOKIE}=nonsense"}):
            assert (route, ask(service.anonymous, route, headers).status_code) == (route, 401)


def test_every_other_scope_is_the_wrong_one(service: Service, mint: Callable[..., dict[str, str]]):
    scopes = {"post", "review", "admin"}
    headers = {needed: (mint(service, *scopes - {needed}), mint(service, needed)) for needed in sorted(scopes)}
    for route, needed in SCOPE.items():
        wrong, right = (ask(service.anonymous, route, held) for held in headers[needed])
        assert (route, wrong.status_code, wrong.json()["code"]) == (route, 403, "forbidden")
        assert f"needs the scope {needed}" in wrong.json()["detail"]
        assert "needs the scope" not in right.text, route
        assert right.status_code != 401, route


def test_nothing_is_changed_by_a_session_without_its_csrf_token(service: Service):
    service.anonymous.get(service.parts.logins.link(who="ada", project="default"))
    caller = service.parts.logins.find(service.anonymous.cookies[COOKIE])
    assert caller is not None
    cross_site = {CSRF_HEADER: str(caller.csrf), "Sec-Fetch-Site": "cross-site"}
    for route in GUARDED:
        if route.split()[0] not in SAFE:
            assert (route, ask(service.anonymous, route, {}).status_code) == (route, 403)
            assert (route, ask(service.anonymous, route, cross_site).status_code) == (route, 403)


@dataclass(frozen=True, slots=True, kw_only=True)
class Theirs:
    """What another project has. values: of the parameters of routes; secrets: texts that tell of it."""

    values: dict[str, str]
    secrets: tuple[str, ...]


@pytest.fixture
def theirs(
    service: Service, mint: Callable[..., dict[str, str]], record: bytes, golden: Path, tmp_path: Path
) -> Theirs:
    """A run of project `theirs` that diverges from its approved golden, and a token."""
    mint(service, "post", "review", project="theirs", name="secret-token")
    parts, (token,) = service.parts, service.parts.tokens.of_project("theirs")
    version = parts.ledger.propose(golden, who="secret-person", project="theirs")
    parts.ledger.decide(version.name, version.version, Decision.APPROVE, who="secret-person", why="secret-reason")
    posted = tmp_path / "record.safetensors"
    posted.write_bytes(record)
    run, _ = parts.runs.post(posted, digest_of_file(posted), who="secret-person", project="theirs")
    judged = parts.assays.judge(parts.assays.question(run))
    assert judged is not None
    values = {
        "run": run.id,
        "name": version.name,
        "version": str(version.version),
        "channel": "approved",
        "assay": judged.id,
        "token": token.id,
        "entry": "1",
        "number": "1",
    }
    return Theirs(values=values, secrets=(run.id, run.digest, judged.id, token.id, version.digest, "secret-"))


def test_other_projects_are_not_seen(service: Service, mint: Callable[..., dict[str, str]], theirs: Theirs):
    mine = mint(service, "post", "review", "admin", project="mine")
    for route in GUARDED:
        method, path = route.split()
        if method not in SAFE or route in OVER_ALL_PROJECTS:
            continue
        for headers in (mine, mine | PAGE):
            answer = ask(service.anonymous, route, headers, **theirs.values)
            if set(re.findall(r"\{(\w+)", path)) & theirs.values.keys():
                assert (route, answer.status_code) == (route, 404)
            else:
                assert answer.status_code in (200, 303, 400, 404), route
                assert not [secret for secret in theirs.secrets if secret in answer.text], route


def test_other_projects_are_not_found_by_filters(service: Service, mint: Callable[..., dict[str, str]], theirs: Theirs):
    mine = mint(service, "post", "review", "admin", project="mine") | PAGE
    run, name = theirs.values["run"], theirs.values["name"]
    asked = {"run": run, "a": f"run:{run}", "b": f"golden:{name}", "golden": name, "name": name, "problem": "toy"}
    told = [secret for secret in theirs.secrets if secret != run]
    for route in GUARDED:
        if route.startswith("GET") and "{" not in route and route not in OVER_ALL_PROJECTS:
            answer = service.anonymous.get(route.split()[1], params=asked, headers=mine)
            assert answer.status_code in (200, 400, 404), route
            assert not [secret for secret in told if secret in answer.text], route


def test_other_projects_are_not_changed(service: Service, mint: Callable[..., dict[str, str]], theirs: Theirs):
    mine = mint(service, "post", "review", "admin", project="mine")
    before = service.parts.ledger.entries("*").items
    for route in GUARDED:
        method, path = route.split()
        if method in SAFE or not set(re.findall(r"\{(\w+)", path)) & theirs.values.keys():
            continue
        answer = ask(service.anonymous, route, mine, **theirs.values)
        assert answer.status_code in (400, 404, 422), route
    assert service.parts.ledger.entries("*").items == before
    assert not [token for token in service.parts.tokens.of_project("theirs") if token.revoked_at]


def test_other_projects_are_not_compared_with(service: Service, mint: Callable[..., dict[str, str]], theirs: Theirs):
    mine = mint(service, "post", "review", "admin", project="mine")
    for reference in (f"run:{theirs.values['run']}", f"golden:{theirs.values['name']}@v{theirs.values['version']}"):
        answer = service.anonymous.post("/api/v1/assays", json={"a": reference, "b": reference}, headers=mine)
        assert answer.status_code == 404, answer.text


def test_metrics_are_for_who_sees_all_projects(service: Service, mint: Callable[..., dict[str, str]]):
    assert service.anonymous.get("/metrics", headers=mint(service, "post", "review", "admin")).status_code == 403
    assert service.anonymous.get("/metrics", headers=mint(service, project="*")).status_code == 200
