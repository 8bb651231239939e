"""The application around its routes: health, errors of every kind, imports, settings."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import version

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient

from gradassay.api.app import create_app, serve
from gradassay.api.problem import add_problem_handlers
from gradassay.api.settings import ServiceSettings
from gradassay.goldens import errors
from gradassay.goldens.errors import GradassayError, UsageError


def test_health_and_version(service):
    assert service.client.get("/healthz").json() == {"status": "ok"}
    assert service.client.get("/version").json() == {"version": version("gradassay"), "format": 1}


@pytest.mark.parametrize(
    ("method", "path", "status", "code"),
    [
        ("GET", "/nowhere", 404, "not-found"),
        ("PUT", "/api/v1/runs", 405, "usage"),
        ("DELETE", "/healthz", 405, "usage"),
    ],
)
def test_what_http_refuses_is_a_problem_too(service, method: str, path: str, status: int, code: str):
    answer = service.client.request(method, path)
    assert answer.status_code == status
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json()["code"] == code
    assert answer.json()["instance"] == path


def every_error() -> list[GradassayError]:
    kinds = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, GradassayError)]
    kinds.remove(errors.MissingExtra)
    return [
        errors.MissingExtra("mlflow", "mlflow"),
        *(kind("what happened", hint="do this", value=7) for kind in kinds),
    ]


def failing(error: Exception) -> TestClient:
    app = FastAPI()
    add_problem_handlers(app)

    @app.get("/fail")
    def fail(number: int = 0) -> None:
        raise error

    return TestClient(app, raise_server_exceptions=False)


@pytest.mark.parametrize("error", every_error(), ids=lambda error: type(error).__name__)
def test_every_error_leaves_with_its_code_status_and_hint(error: GradassayError):
    answer = failing(error).get("/fail")
    problem = answer.json()
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.status_code == problem["status"] == error.kind.http_status
    assert (problem["code"], problem["title"]) == (error.code, error.kind.meaning)
    assert (problem["detail"], problem["hint"]) == (error.message, error.hint)
    assert problem["type"] == f"urn:gradassay:problem:{error.code}"


def test_bug_keeps_its_text_to_the_log():
    answer = failing(RuntimeError("password is hunter2")).get("/fail")
    assert (answer.status_code, answer.json()["code"]) == (500, "bug")
    assert "RuntimeError" in answer.json()["detail"]
    assert "hunter2" not in answer.text


def test_query_that_makes_no_sense_is_named():
    answer = failing(RuntimeError()).get("/fail", params={"number": "many"})
    assert (answer.status_code, answer.json()["code"]) == (400, "usage")
    assert "query.number" in answer.json()["detail"]
    assert "'many'" in answer.json()["detail"]


def test_openapi_offers_the_file_as_body():
    document = create_app(ServiceSettings(store="dir:unused")).openapi()
    post = document["paths"]["/api/v1/runs"]["post"]
    assert "application/octet-stream" in post["requestBody"]["content"]
    assert {"200", "201", "4XX"} <= set(post["responses"])


def test_service_imports_neither_torch_nor_harness():
    program = (
        "import sys; from gradassay.api.app import create_app\n"
        "from gradassay.api.settings import ServiceSettings\n"
        "create_app(ServiceSettings(store='dir:unused')).openapi()\n"
        "print(sorted(name for name in sys.modules if name in ('torch', 'mlflow', 'gradassay.harness')))"
    )
    done = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    assert done.stdout.strip() == "[]"


def test_serving_listens_on_this_machine_unless_told_otherwise(monkeypatch: pytest.MonkeyPatch):
    asked: list[dict[str, object]] = []
    monkeypatch.setattr("uvicorn.run", lambda app, **options: asked.append({**options, "store": str(app.state.store)}))
    monkeypatch.setenv("GRADASSAY_PORT", "4321")
    monkeypatch.delenv("GRADASSAY_HOST", raising=False)
    serve(store="dir:/kept")
    serve(host="0.0.0.0", port=1234, store="dir:/kept")
    assert [(one["host"], one["port"], one["store"]) for one in asked] == [
        ("127.0.0.1", 4321, "dir:/kept"),
        ("0.0.0.0", 1234, "dir:/kept"),
    ]


def test_setting_that_makes_no_sense_is_named(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("GRADASSAY_MAX_UPLOAD_BYTES", "much")
    with pytest.raises(UsageError, match="GRADASSAY_MAX_UPLOAD_BYTES = 'much'"):
        create_app()
