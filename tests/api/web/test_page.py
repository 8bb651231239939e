"""What every page has: the policy, the block that htmx asks for, messages, and templates without inline parts."""

from __future__ import annotations

import re
from importlib.resources import files
from pathlib import Path

import pytest
from fastapi import FastAPI, Request
from fastapi.responses import Response
from starlette.testclient import TestClient

from gradassay.api.auth.caller import Caller
from gradassay.api.problem import add_problem_handlers
from gradassay.api.web import flash
from gradassay.api.web.page import POLICY, Crumb, go, page
from gradassay.goldens.errors import Conflict, Forbidden, NotFound

WEB = Path(str(files("gradassay.api.web")))
TEMPLATES = sorted((WEB / "templates").rglob("*.html"))
ADA = Caller(who="a<d>a", project="*", scopes=frozenset())


def app() -> FastAPI:
    made = FastAPI()
    add_problem_handlers(made)

    @made.get("/faults")
    def show(request: Request, q: str = "") -> Response:
        return page(
            request,
            "faults.html",
            title="<Faults>",
            caller=ADA,
            crumbs=(Crumb(text="Up", url="/"), Crumb(text="Faults")),
            words=q,
            faults=(),
            total=0,
        )

    @made.post("/form")
    def form() -> Response:
        return go("/faults", "Done & <dusted>, 100%.")

    @made.get("/{kind}")
    def fail(kind: str) -> None:
        raise {"conflict": Conflict, "forbidden": Forbidden}.get(kind, NotFound)(f"{kind} <happened>", hint="try & try")

    @made.get("/api/fail")
    def fail_there() -> None:
        raise Conflict("happened")

    @made.get("/bug/there")
    def bug() -> None:
        raise RuntimeError("hunter2")

    return made


@pytest.fixture
def client() -> TestClient:
    return TestClient(app(), headers={"Accept": "text/html,*/*"}, raise_server_exceptions=False)


def test_policy_allows_nothing_inline_and_nothing_from_elsewhere(client: TestClient):
    headers = client.get("/faults").headers
    assert headers["content-security-policy"] == POLICY
    assert "unsafe" not in POLICY
    assert "http" not in POLICY
    for part in ("default-src 'none'", "frame-ancestors 'none'", "base-uri 'none'", "form-action 'self'"):
        assert part in POLICY
    assert headers["cache-control"] == "no-store"
    assert headers["x-content-type-options"] == "nosniff"


@pytest.mark.parametrize("path", TEMPLATES, ids=[str(path.relative_to(WEB / "templates")) for path in TEMPLATES])
def test_templates_hold_nothing_that_the_policy_forbids(path: Path):
    text = path.read_text()
    assert not re.search(r"<style|\sstyle=|\son[a-z]+=|javascript:|hx-on|hx-vals=.js", text)
    assert not re.search(r"https?://", text.replace("http-equiv", ""))
    for script in re.findall(r"<script([^>]*)>", text):
        assert 'type="application/json"' in script or 'src="{{ static(' in script
    assert "| safe" not in text


def test_page_says_where_one_is(client: TestClient):
    text = client.get("/faults").text
    assert "<title>&lt;Faults&gt; · gradassay</title>" in text
    assert '<a href="/faults" aria-current="page">Faults</a>' in text
    assert '<a class="skip" href="#content">' in text
    assert '<li><a href="/">Up</a></li><li><span aria-current="page">Faults</span></li>' in text
    assert "a&lt;d&gt;a, project all" in text


def test_message_is_shown_once(client: TestClient):
    shown = client.post("/form").text
    assert '<p class="flash done" role="status">Done &amp; &lt;dusted&gt;, 100%.</p>' in shown
    assert 'class="flash done"' not in client.get("/faults").text


@pytest.mark.parametrize("value", ["done", "evil.text", "done.", ".x", "done.%"])
def test_message_of_somebody_else_is_ignored_or_text(client: TestClient, value: str):
    client.cookies.set("gradassay_message", value)
    answer = client.get("/faults")
    assert answer.status_code == 200
    assert 'class="flash evil"' not in answer.text


@pytest.mark.parametrize(("kind", "status"), [("conflict", 409), ("forbidden", 403), ("missing", 404)])
def test_failures_are_pages_for_browsers_and_documents_for_others(client: TestClient, kind: str, status: int):
    shown = client.get(f"/{kind}")
    assert (shown.status_code, shown.headers["content-security-policy"]) == (status, POLICY)
    assert f"{kind} &lt;happened&gt;" in shown.text
    assert "try &amp; try" in shown.text
    assert client.get(f"/{kind}", headers={"Accept": "application/json"}).json()["detail"] == f"{kind} <happened>"


def test_api_answers_documents_whatever_is_accepted(client: TestClient):
    assert client.get("/api/fail").headers["content-type"] == "application/problem+json"


def test_bug_keeps_its_text_to_the_log(client: TestClient):
    shown = client.get("/bug/there")
    assert shown.status_code == 500
    assert "Something is broken" in shown.text
    assert "hunter2" not in shown.text


def test_long_message_is_cut_to_what_a_cookie_holds():
    response = Response()
    flash.write(response, "é" * 4000, "done")
    cookie = response.headers["set-cookie"].partition(";")[0]
    assert 3000 < len(cookie) < 4096
    kept = flash.read(Request({"type": "http", "headers": [(b"cookie", cookie.encode())]}))
    assert kept is not None
    assert set(kept.text) == {"é"}
