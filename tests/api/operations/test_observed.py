"""What happens to every request around its route."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
import structlog
from fastapi import APIRouter, FastAPI, Request
from fastapi.responses import PlainTextResponse
from fastapi.staticfiles import StaticFiles
from fastapi.testclient import TestClient
from sqlalchemy.exc import OperationalError
from starlette.types import ASGIApp, Receive, Scope, Send
from structlog.testing import capture_logs

from gradassay.api.operations.metrics import REGISTRY
from gradassay.api.operations.observed import Observed
from gradassay.api.problem import add_problem_handlers
from gradassay.goldens.errors import Conflict, Forbidden


@dataclass
class Somebody:
    who: str = "ci"
    project: str = "team"


class Refusing:
    """Middleware that raises what routes would."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope.get("path") == "/refused":
            raise Forbidden("not here")
        await self.app(scope, receive, send)


FAILURES = {
    "bug": RuntimeError("password is hunter2"),
    "database": OperationalError("SELECT 1", {}, Exception("server closed the connection")),
}


@pytest.fixture
def client(tmp_path) -> TestClient:
    app = FastAPI()
    router = APIRouter(prefix="/things")

    @router.get("/{thing}")
    def show(request: Request, thing: str) -> dict[str, str]:
        request.state.caller = Somebody()
        structlog.get_logger("gradassay.route").info("within", thing=thing)
        return {"thing": thing}

    @router.post("/{thing}")
    def fail(thing: str) -> None:
        raise FAILURES.get(thing, Conflict("taken"))

    @app.get("/healthz")
    def healthz() -> None: ...

    @app.get("/page")
    def page() -> PlainTextResponse:
        return PlainTextResponse("page", headers={"Content-Security-Policy": "default-src 'self'"})

    (tmp_path / "style.css").write_text("")
    app.include_router(router)
    app.mount("/files", StaticFiles(directory=tmp_path))
    add_problem_handlers(app)
    app.add_middleware(Refusing)
    app.add_middleware(Observed)
    return TestClient(app, raise_server_exceptions=False)


def counted(method: str, route: str, status: int) -> float:
    labels = {"method": method, "route": route, "status": str(status)}
    return REGISTRY.get_sample_value("gradassay_requests_total", labels) or 0.0


@pytest.mark.parametrize("given", ["abc-1.2_3", "a" * 64])
def test_request_id_of_the_client_is_taken(client: TestClient, given: str):
    assert client.get("/things/a", headers={"X-Request-ID": given}).headers["x-request-id"] == given


@pytest.mark.parametrize("given", ["", "a" * 65, "a b", "-a", "<script>", "a\tb"])
def test_request_id_that_is_no_name_is_replaced(client: TestClient, given: str):
    first = client.get("/things/a", headers={"X-Request-ID": given}).headers["x-request-id"]
    second = client.get("/things/a", headers={"X-Request-ID": given}).headers["x-request-id"]
    assert len(first) == 32
    assert given != first != second


def test_request_is_logged_with_its_template_caller_and_id(client: TestClient):
    with capture_logs(processors=[structlog.contextvars.merge_contextvars]) as lines:
        client.get("/things/secret-name?token=hunter2", headers={"X-Request-ID": "r1"})
    within, request = lines
    assert (within["event"], within["request_id"]) == ("within", "r1")
    assert request.pop("seconds") >= 0
    assert request == {
        "event": "request",
        "log_level": "info",
        "request_id": "r1",
        "method": "GET",
        "route": "/things/{thing}",
        "status": 200,
        "caller": "ci",
        "project": "team",
    }


@pytest.mark.parametrize(
    ("method", "path", "route", "status"),
    [
        ("GET", "/things/a", "/things/{thing}", 200),
        ("POST", "/things/a", "/things/{thing}", 409),
        ("POST", "/things/bug", "/things/{thing}", 500),
        ("GET", "/files/style.css", "/files/*", 200),
        ("GET", "/files/none.css", "/files/*", 404),
        ("GET", "/nowhere/at/all", "unmatched", 404),
    ],
)
def test_requests_are_counted_by_template(client: TestClient, method: str, path: str, route: str, status: int):
    before = counted(method, route, status)
    assert client.request(method, path).status_code == status
    assert counted(method, route, status) == before + 1


def test_methods_of_clients_make_no_labels(client: TestClient):
    before = counted("other", "unmatched", 404)
    client.request("BREW", "/pot")
    assert counted("other", "unmatched", 404) == before + 1
    assert counted("BREW", "unmatched", 404) == 0


def test_bug_is_logged_whole_and_told_by_its_request_id(client: TestClient):
    with capture_logs(processors=[structlog.contextvars.merge_contextvars]) as lines:
        answer = client.post("/things/bug", headers={"X-Request-ID": "r2"})
    assert (answer.status_code, answer.json()["code"], answer.json()["request_id"]) == (500, "bug", "r2")
    assert answer.headers["x-request-id"] == "r2"
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert "hunter2" not in answer.text
    unexpected, request = lines
    assert (unexpected["event"], unexpected["log_level"], unexpected["exc_info"]) == ("unexpected error", "error", True)
    assert (request["event"], request["status"]) == ("request", 500)


def test_database_that_is_away_is_no_bug(client: TestClient):
    with capture_logs() as lines:
        answer = client.post("/things/database")
    assert (answer.status_code, answer.json()["code"]) == (503, "unreachable")
    assert "SELECT" not in answer.text
    assert [line["event"] for line in lines] == ["unexpected error", "request"]


def test_what_middleware_refuses_is_a_problem_too(client: TestClient):
    with capture_logs() as lines:
        answer = client.get("/refused")
    assert (answer.status_code, answer.json()["code"]) == (403, "forbidden")
    assert answer.headers["x-request-id"] == answer.json()["request_id"]
    assert [(line["event"], line["status"]) for line in lines] == [("request", 403)]


def test_routine_checks_are_logged_only_where_they_fail(client: TestClient):
    with capture_logs() as lines:
        client.get("/healthz")
    assert lines == []
    with capture_logs() as lines:
        client.delete("/healthz")
    assert [line["status"] for line in lines] == [405]


def test_answers_carry_headers_that_keep_browsers_safe(client: TestClient):
    plain, page = client.get("/things/a").headers, client.get("/page").headers
    assert plain["content-security-policy"] == "default-src 'none'; frame-ancestors 'none'"
    assert page["content-security-policy"] == "default-src 'self'"
    for headers in (plain, page):
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["x-frame-options"] == "DENY"
        assert headers["referrer-policy"] == "same-origin"
        assert headers["cross-origin-opener-policy"] == "same-origin"
