"""A real uvicorn on loopback over a directory store, with small files to post."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx2
import pytest
import uvicorn

from builders import Toy
from gradassay.api.app import create_app
from gradassay.api.settings import ServiceSettings
from gradassay.goldens.golden import Golden
from gradassay.goldens.layout import Layout
from gradassay.goldens.record import Record
from gradassay.goldens.store.open import open_store
from gradassay.goldens.store.protocol import GoldenStore

LIMIT = 300_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    """A running service. folder: the root of its store; uploads: where it keeps what is not yet checked."""

    address: tuple[str, int]
    client: httpx2.Client
    store: GoldenStore
    folder: Path
    uploads: Path

    def is_untouched(self) -> bool:
        """Neither a record nor a temporary file was left behind."""
        files = [path for path in self.folder.rglob("*") if path.is_file() and path.name != ".lock"]
        return not files and not list(self.uploads.glob("gradassay-upload-*"))


@pytest.fixture
def service(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Service]:
    """The service on a free port of this machine."""
    uploads = tmp_path / "uploads"
    uploads.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(uploads))
    store = f"dir:{tmp_path}/store"
    app = create_app(ServiceSettings(store=store, max_upload_bytes=LIMIT))
    server = uvicorn.Server(uvicorn.Config(app, log_level="warning"))
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
        thread.start()
        host, port = listening.getsockname()
        try:
            with httpx2.Client(base_url=f"http://{host}:{port}", timeout=30) as client:
                yield Service(
                    address=(host, port),
                    client=client,
                    store=open_store(store),
                    folder=tmp_path / "store",
                    uploads=uploads,
                )
        finally:
            server.should_exit = True
            thread.join()


@pytest.fixture
def toy(make_toy: Callable[..., Toy]) -> Toy:
    """A small problem with two families."""
    return make_toy(families={"dense": [(24, 16)], "expert": [(40, 30), (40, 30)]}, units=8)


@pytest.fixture
def record(toy: Toy, make_record: Callable[..., Record]) -> bytes:
    """A record file whose experts are twice too large."""
    return make_record(toy, layout=Layout(dp=4, ep=2, accum=2), weights={"expert": 2.0}).to_bytes()


@pytest.fixture
def golden(toy: Toy, make_golden: Callable[..., Golden], tmp_path: Path) -> Path:
    """The golden file of the same problem."""
    path = tmp_path / "golden.safetensors"
    make_golden(toy).write(path)
    return path
