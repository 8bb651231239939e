"""The application around its routes: health, errors of every kind, imports, settings."""

from __future__ import annotations

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import version
from pathlib import Path

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient

from gradassay.api.app import create_app
from gradassay.api.operations.readiness import Readiness
from gradassay.api.problem import add_problem_handlers
from gradassay.api.settings import ServiceSettings
from gradassay.goldens import errors
from gradassay.goldens.errors import GradassayError, StoreError, UsageError
from gradassay.goldens.golden import read_golden
from gradassay.goldens.store.directory import DirectoryStore


def test_health_and_version_are_for_everybody(service):
    assert service.anonymous.get("/healthz").json() == {"status": "ok"}
    assert service.anonymous.get("/readyz").json() == {"database": "ok", "store": "ok"}
    assert service.anonymous.get("/version").json() == {"version": version("gradassay"), "format": 1}


def test_nobody_is_kept_waiting_by_a_service_that_stops(
    service, record: bytes, golden: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(service.parts.assays._claims, "_take", lambda name: False)
    name = read_golden(golden).name
    run = service.client.post("/api/v1/runs", content=record).raise_for_status().json()["id"]
    service.client.post(f"/api/v1/goldens/{name}/versions", content=golden.read_bytes()).raise_for_status()
    decision = {"version": 1, "expected_version": 0, "why": "the first"}
    service.client.put(f"/api/v1/goldens/{name}/channels/approved", json=decision).raise_for_status()
    with ThreadPoolExecutor(1) as pool:
        asked = pool.submit(service.client.get, f"/api/v1/runs/{run}/assay", params={"wait": 60}, timeout=60)
        with pytest.raises(TimeoutError):
            asked.result(timeout=1.5)
        service.parts.assays.stopping.set()
        assert asked.result(timeout=20).status_code == 202


class Lost(DirectoryStore):
    """A store that cannot be read."""

    def find_golden(self, *arguments, **named):
        raise StoreError("/secret/path: the disk is gone")


def test_service_that_cannot_work_is_not_ready(tmp_path: Path):
    app = create_app(ServiceSettings(store=f"dir:{tmp_path}"))
    with TestClient(app) as client:
        app.state.readiness = Readiness(database=app.state.service.database, store=Lost(tmp_path))
        answer = client.get("/readyz")
    assert (answer.status_code, answer.json()["code"]) == (503, "unreachable")
    assert answer.json()["facts"] == {"store": "failed"}
    assert "secret" not in answer.text


def test_metrics_are_for_those_who_see_all_projects(service, mint):
    assert service.anonymous.get("/metrics").status_code == 401
    assert service.client.get("/metrics").json()["code"] == "forbidden"
    answer = service.client.get("/metrics", headers=mint(service, project="*"))
    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("text/plain; version=")
    assert 'gradassay_requests_total{method="GET",route="/metrics",status="403"}' in answer.text


def test_what_was_done_is_counted(service, record: bytes, golden: Path, mint):
    name = read_golden(golden).name
    service.client.post("/api/v1/runs", content=b"no record")
    run = service.client.post("/api/v1/runs", content=record).raise_for_status().json()["id"]
    service.client.post(f"/api/v1/goldens/{name}/versions", content=golden.read_bytes()).raise_for_status()
    decision = {"version": 1, "expected_version": 0, "why": "the first"}
    service.client.put(f"/api/v1/goldens/{name}/channels/approved", json=decision).raise_for_status()
    service.client.get(f"/api/v1/runs/{run}/assay", params={"wait": 30}).raise_for_status()
    text = service.client.get("/metrics", headers=mint(service, project="*")).text
    for counted in (
        'gradassay_uploads_total{outcome="created"}',
        'gradassay_uploads_total{outcome="invalid-file"}',
        'gradassay_assays_total{verdict="diverge"}',
        'gradassay_ledger_entries_total{action="proposed"}',
        'gradassay_ledger_entries_total{action="approved"}',
    ):
        assert counted in text
    assert run not in text


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
    assert ("www-authenticate" in answer.headers) is (error.kind.http_status == 401)


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


def test_setting_that_makes_no_sense_is_named(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("GRADASSAY_MAX_UPLOAD_BYTES", "much")
    with pytest.raises(UsageError, match="GRADASSAY_MAX_UPLOAD_BYTES = 'much'"):
        create_app()
