"""The service dies in the middle of an upload: the command tries again, and nothing is there twice."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from builders import Toy
from gradassay.goldens.container import digest_of_file
from gradassay.goldens.layout import Layout
from gradassay.goldens.record import Record
from replica import client, replica, token

DEADLINE_S = 120.0
PIECE = 65536
HELD_AFTER = 20 * PIECE


@dataclass(slots=True, kw_only=True)
class Relay:
    """A connection between client and service that lets a part of the first upload through and then holds it.

    held: the part is with the service. target: where the next connection goes.
    """

    url: str = ""
    target: int = 0
    held: threading.Event = field(default_factory=threading.Event)
    dead: threading.Event = field(default_factory=threading.Event)


@contextmanager
def relay() -> Iterator[Relay]:
    """A relay on a free port."""
    running = Relay()
    with socket.create_server(("127.0.0.1", 0)) as listening:
        running.url = f"http://127.0.0.1:{listening.getsockname()[1]}"
        accepting = threading.Thread(target=_accept, args=(listening, running), daemon=True)
        accepting.start()
        try:
            yield running
        finally:
            listening.shutdown(socket.SHUT_RDWR)
            accepting.join(DEADLINE_S)


def _accept(listening: socket.socket, running: Relay) -> None:
    limit: int | None = HELD_AFTER
    while True:
        try:
            near, _ = listening.accept()
        except OSError:
            return
        with near:
            if running.dead.is_set() and running.target == 0:
                continue
            with socket.create_connection(("127.0.0.1", running.target)) as far:
                back = threading.Thread(target=_forward, args=(far, near), daemon=True)
                back.start()
                _forward(near, far, limit)
                if limit is not None:
                    running.held.set()
                    assert running.dead.wait(DEADLINE_S)
                    limit = None
                back.join(DEADLINE_S)


def _forward(source: socket.socket, target: socket.socket, limit: int | None = None) -> None:
    passed = 0
    try:
        while (limit is None or passed < limit) and (piece := source.recv(PIECE)):
            target.sendall(piece)
            passed += len(piece)
        if limit is None:
            target.shutdown(socket.SHUT_WR)
    except OSError:
        return


def test_an_upload_that_the_service_did_not_survive_is_repeated(
    tmp_path: Path, make_toy: Callable[..., Toy], make_record: Callable[..., Record]
) -> None:
    toy = make_toy(families={"dense": [(4, 4)] * 100}, units=8)
    file = tmp_path / "record.safetensors"
    make_record(toy, layout=Layout(dp=8), copies=True).write(file)
    assert file.stat().st_size > 2 * HELD_AFTER
    settings = {
        "GRADASSAY_STORE": f"dir:{tmp_path / 'store'}",
        "GRADASSAY_DATABASE_URL": f"sqlite:///{tmp_path / 'service.db'}",
    }
    with relay() as between:
        with replica(tmp_path / "first", **settings) as first:
            headers = token(settings["GRADASSAY_DATABASE_URL"])
            between.target = int(first.url.rpartition(":")[2])
            posting = _post(file, between.url, headers, tmp_path)
            assert between.held.wait(DEADLINE_S)
            first.kill()
            between.target = 0
            between.dead.set()
        assert not list((tmp_path / "store").rglob("*.safetensors"))

        with replica(tmp_path / "second", **settings) as second:
            between.target = int(second.url.rpartition(":")[2])
            out, err = posting.communicate(timeout=DEADLINE_S)

            assert posting.returncode == 0, err
            assert "trying again in" in err
            assert out.startswith("run:")
            with client(second, headers) as asking:
                (run,) = asking.get("/api/v1/runs").json()["items"]
                assert run["digest"] == digest_of_file(file)
                assert asking.get(f"/api/v1/runs/{run['id']}/record").content == file.read_bytes()
    assert len(list((tmp_path / "store" / "records").glob("*.safetensors"))) == 1


def _post(file: Path, url: str, headers: dict[str, str], folder: Path) -> subprocess.Popen[str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("GRADASSAY_")}
    own = {"GRADASSAY_URL": url, "GRADASSAY_TOKEN": headers["Authorization"].removeprefix("Bearer ")}
    return subprocess.Popen(
        [sys.executable, "-m", "gradassay.cli.main", "post", str(file)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=folder,
        env=kept | own,
    )
