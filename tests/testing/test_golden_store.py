"""From what --golden-store names to the store, and from what a test writes to a golden."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

import served
from gradassay.api.ledger.deciding import Decision
from gradassay.client.probe import is_service
from gradassay.client.store import ServiceStore
from gradassay.goldens.errors import InvalidFile, NoGolden, Unreachable, UsageError
from gradassay.goldens.golden import Golden
from gradassay.goldens.store.directory import DirectoryStore
from gradassay.goldens.store.mlflow import MlflowStore
from gradassay.testing.golden_store import Goldens, open_golden_store, reference
from served import Service


class _Mlflow(BaseHTTPRequestHandler):
    """Answers /version as an MLflow server does: the release as plain text."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.end_headers()
        self.wfile.write(b"3.17.2")

    def log_message(self, format: str, *arguments: object) -> None:
        return


@pytest.fixture
def mlflow_url() -> Iterator[str]:
    with HTTPServer(("127.0.0.1", 0), _Mlflow) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    folder = tmp_path / "service"
    folder.mkdir()
    with served.serving(folder, uploads=folder, max_upload_bytes=2**26) as running:
        yield running


@pytest.mark.parametrize("form", ["{}", "dir:{}"])
def test_a_folder_is_a_store(tmp_path: Path, form: str) -> None:
    assert isinstance(open_golden_store(form.format(tmp_path / "store")), DirectoryStore)


def test_an_http_address_is_asked_what_it_is(
    service: Service, mlflow_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GRADASSAY_RETRY_S", "0")
    assert isinstance(open_golden_store(service.url), ServiceStore)
    assert isinstance(open_golden_store(mlflow_url), MlflowStore)
    assert is_service(f"{service.url}/")
    assert not is_service(mlflow_url)


def test_an_address_at_which_nobody_answers_is_no_mlflow(
    mlflow_url: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("GRADASSAY_RETRY_S", "0")
    with HTTPServer(("127.0.0.1", 0), _Mlflow) as server:
        free = server.server_port
    with pytest.raises(Unreachable, match=rf"GET http://127\.0\.0\.1:{free}/version"):
        open_golden_store(f"http://127.0.0.1:{free}")


def test_an_address_of_no_kind_is_refused() -> None:
    with pytest.raises(UsageError, match="ftp:"):
        open_golden_store("ftp://somewhere")


def test_goldens_of_the_service(
    service: Service, make_golden: Callable[..., Golden], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    headers = served.mint(service, "post", "review")
    monkeypatch.setenv("GRADASSAY_TOKEN", headers["Authorization"].removeprefix("Bearer "))
    monkeypatch.setenv("GRADASSAY_CACHE", str(tmp_path / "cache"))
    golden = make_golden()
    golden.write(tmp_path / "golden")
    goldens = Goldens(service.url)
    version = goldens.store.put_golden(tmp_path / "golden")
    with pytest.raises(NoGolden):
        goldens.find(golden.name, "approved", tmp_path)
    service.parts.ledger.decide(golden.name, version.version, Decision.APPROVE, who="ada", why="measured")

    found = goldens.find(golden.name, "approved", tmp_path)
    assert goldens.is_service
    assert (found.kind, found.ref) == ("golden", f"golden:{golden.name}@approved")
    assert found.path.read_bytes() == (tmp_path / "golden").read_bytes()


@pytest.mark.parametrize(
    ("written", "means"),
    [
        ("approved", "golden:moe-tiny.float32@approved"),
        ("nightly", "golden:moe-tiny.float32@nightly"),
        ("v3", "golden:moe-tiny.float32@v3"),
        ("other@v3", "golden:other@v3"),
        ("golden:other@approved", "golden:other@approved"),
    ],
)
def test_what_a_test_writes(written: str, means: str) -> None:
    assert reference("moe-tiny.float32", written) == means


def test_a_file_is_looked_for_beside_the_test(make_golden: Callable[..., Golden], tmp_path: Path) -> None:
    goldens = Goldens(str(tmp_path / "store"))
    make_golden().write(tmp_path / "golden.safetensors")

    assert goldens.find("any", "golden.safetensors", tmp_path).path == tmp_path / "golden.safetensors"
    with pytest.raises(InvalidFile, match="no such golden"):
        goldens.find("any", "./golden", tmp_path)
    assert not goldens.is_service
