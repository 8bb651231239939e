"""`gradassay serve` as a user starts it: what it says, how it ends, and what it refuses."""

from __future__ import annotations

import signal
import socket
import sqlite3
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx2
import pytest

import replica as processes
from gradassay.api.database.database import Database
from gradassay.api.database.migrate import upgrade
from gradassay.goldens.record import Record


@pytest.fixture
def store(tmp_path: Path) -> dict[str, str]:
    return {"GRADASSAY_STORE": f"dir:{tmp_path / 'store'}"}


def test_login_link_works_once(tmp_path: Path, store: dict[str, str]):
    with processes.replica(tmp_path, **store) as service:
        assert service.url.startswith("http://127.0.0.1:")
        assert service.login is not None
        with httpx2.Client() as browser:
            answers = [browser.get(service.login, headers={"Accept": "text/html"}) for _ in range(2)]
            assert answers[0].status_code in (200, 303)
            assert browser.cookies
        with httpx2.Client() as other:
            other.get(service.login, headers={"Accept": "text/html"})
            assert not other.cookies.get("gradassay_session")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_being_told_to_stop_is_no_failure(tmp_path: Path, store: dict[str, str], number: signal.Signals):
    with processes.replica(tmp_path, **store) as service:
        service.process.send_signal(number)
        assert service.process.wait(timeout=60) == 0
        assert "Traceback" not in service.log.read_text()


def test_everything_lies_in_the_folder(tmp_path: Path):
    with processes.replica(tmp_path, "--folder", "kept") as service:
        give_up = time.monotonic() + 120
        while (ready := httpx2.get(f"{service.url}/readyz", timeout=60)).status_code == 503:
            assert time.monotonic() < give_up, ready.text
            time.sleep(0.1)
        assert ready.json() == {"database": "ok", "store": "ok"}
        assert service.stop() == 0
    assert {path.name for path in (tmp_path / "kept").iterdir()} >= {"service.db", "mlflow.db"}
    assert not (tmp_path / ".gradassay").exists()


def test_beyond_this_machine_no_login_link_is_printed(tmp_path: Path, store: dict[str, str]):
    with processes.replica(tmp_path, "--host", "0.0.0.0", **store) as service:
        assert service.login is None
        assert service.stop() == 0
        assert "gradassay token create" in service.log.read_text()


def test_port_in_use_is_said(inside: Callable[..., Any]):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        ran = inside("serve", "--port", port)
    assert ran.code == 2
    assert f"127.0.0.1 port {port}" in ran.err
    assert "--port" in ran.err
    assert "Traceback" not in ran.err


def test_host_that_is_no_address_is_said(inside: Callable[..., Any]):
    ran = inside("serve", "--host", "no such host")
    assert (ran.code, "'no such host'" in ran.err) == (2, True)


def test_address_of_another_machine_is_said(inside: Callable[..., Any]):
    ran = inside("serve", "--host", "192.0.2.1", "--port", "0")
    assert (ran.code, "192.0.2.1" in ran.err, "--host" in ran.err) == (2, True, True)


def test_folder_that_cannot_be_made_is_said(inside: Callable[..., Any], tmp_path: Path):
    (tmp_path / "taken").write_text("a file")
    ran = inside("serve", "--port", "0", "--folder", tmp_path / "taken" / "folder")
    assert (ran.code, str(tmp_path / "taken") in ran.err, "Traceback" in ran.err) == (2, True, False)


def test_folder_and_store_are_not_given_together(inside: Callable[..., Any]):
    ran = inside("serve", "--folder", "here", "--store", "dir:there")
    assert (ran.code, "--folder and --store" in ran.err) == (2, True)


def test_database_of_a_newer_release_is_left_alone(inside: Callable[..., Any], tmp_path: Path):
    database = Database(f"sqlite:///{tmp_path}/store/service.db")
    upgrade(database)
    database.close()
    with sqlite3.connect(tmp_path / "store" / "service.db") as raw:
        raw.execute("UPDATE alembic_version SET version_num = '9999'")
    ran = inside("serve", "--port", "0")
    assert (ran.code, "9999" in ran.err, "release" in ran.err, "Traceback" in ran.err) == (2, True, True, False)


def test_file_that_is_no_database_is_said(inside: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "notes.db").write_bytes(b"These are my notes.\n" * 50)
    monkeypatch.setenv("GRADASSAY_DATABASE_URL", f"sqlite:///{tmp_path}/notes.db")
    ran = inside("serve", "--port", "0")
    assert (ran.code, "notes.db" in ran.err, "Traceback" in ran.err) == (2, True, False)


def test_store_without_a_folder_needs_a_database(inside: Callable[..., Any]):
    ran = inside("serve", "--port", "0", "--store", "http://127.0.0.1:1")
    assert (ran.code, "GRADASSAY_DATABASE_URL" in ran.err) == (2, True)


def test_upload_that_is_under_way_is_finished(
    tmp_path: Path, store: dict[str, str], make_record: Callable[..., Record]
):
    body = make_record().to_bytes()
    with processes.replica(tmp_path, **store) as service:
        headers = processes.token(f"sqlite:///{tmp_path}/store/service.db")
        host, port = service.url.removeprefix("http://").split(":")
        with socket.create_connection((host, int(port)), timeout=60) as connection:
            head = [f"POST /api/v1/runs HTTP/1.1\r\nHost: {host}:{port}", f"Content-Length: {len(body)}"]
            head += [f"{name}: {value}" for name, value in headers.items()]
            connection.sendall("\r\n".join([*head, "Expect: 100-continue", "", ""]).encode())
            assert connection.recv(1000).startswith(b"HTTP/1.1 100")
            connection.sendall(body[:1000])
            service.process.send_signal(signal.SIGTERM)
            _refuses_others(host, int(port))
            connection.sendall(body[1000:])
            assert connection.recv(1000).startswith(b"HTTP/1.1 201")
        assert service.process.wait(timeout=60) == 0
        assert [line["status"] for line in service.lines() if line["event"] == "request"] == [201]


def test_upload_that_never_ends_is_given_up(tmp_path: Path, store: dict[str, str]):
    with processes.replica(tmp_path, **store, GRADASSAY_SHUTDOWN_S="1") as service:
        headers = processes.token(f"sqlite:///{tmp_path}/store/service.db")
        host, port = service.url.removeprefix("http://").split(":")
        with socket.create_connection((host, int(port)), timeout=60) as connection:
            head = [f"POST /api/v1/runs HTTP/1.1\r\nHost: {host}:{port}", "Content-Length: 5000"]
            head += [f"{name}: {value}" for name, value in headers.items()]
            connection.sendall("\r\n".join([*head, "Expect: 100-continue", "", ""]).encode())
            assert connection.recv(1000).startswith(b"HTTP/1.1 100")
            service.process.send_signal(signal.SIGTERM)
            assert service.process.wait(timeout=60) == 0
            assert b" 201 " not in connection.recv(1000)
    assert not list((tmp_path / "store").rglob("*.safetensors"))


def _refuses_others(host: str, port: int) -> None:
    """Returns once nobody is let in any more; the test's own time limit bounds it."""
    while True:
        try:
            socket.create_connection((host, port), timeout=1).close()
        except OSError:
            return
