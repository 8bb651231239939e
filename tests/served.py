"""A real uvicorn on loopback over a store in a folder, and tokens for it."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx2
import structlog
import uvicorn

from gradassay.api.app import create_app
from gradassay.api.auth.scope import Scope
from gradassay.api.settings import ServiceSettings
from gradassay.goldens.store.protocol import GoldenStore

if TYPE_CHECKING:
    from gradassay.api.service import Service as Parts

LIMIT = 300_000
PLAIN = structlog.dev.ConsoleRenderer(colors=False, exception_formatter=structlog.dev.plain_traceback)
"""By default structlog shows every local variable in a traceback, which takes it a minute where an application is one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    """A running service.

    client: holds a token with every scope of project `default`; anonymous: holds nothing. parts: what the service itself
    works with. folder: the root of its store; uploads: where it keeps what is not yet checked.
    """

    address: tuple[str, int]
    client: httpx2.Client
    anonymous: httpx2.Client
    parts: Parts
    folder: Path
    uploads: Path

    @property
    def url(self) -> str:
        """Where it listens."""
        return "http://{}:{}".format(*self.address)

    @property
    def store(self) -> GoldenStore:
        """The store behind it."""
        return self.parts.store

    def is_untouched(self) -> bool:
        """Neither a record nor a temporary file was left behind."""
        files = [path for path in self.folder.rglob("*") if path.is_file() and path.name != ".lock"]
        return not files and not list(self.uploads.glob("gradassay-upload-*"))


@contextmanager
def serving(folder: Path, *, uploads: Path, on_port: int = 0, **settings: Any) -> Iterator[Service]:
    """The service on this machine, on a free port by default; settings: what differs from a `dir:` store and SQLite in
    `folder`.
    """
    chosen = {
        "store": f"dir:{folder}/store",
        "database_url": f"sqlite:///{folder}/service.db",
        "max_upload_bytes": LIMIT,
        **settings,
    }
    if not structlog.is_configured():
        structlog.configure(processors=[structlog.stdlib.add_log_level, PLAIN])
    app = create_app(ServiceSettings(**chosen))
    server = uvicorn.Server(uvicorn.Config(app, log_level="warning"))
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", on_port))
        listening.listen()
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
        thread.start()
        address = listening.getsockname()
        url = "http://{}:{}".format(*address)
        try:
            with (
                httpx2.Client(base_url=url, timeout=30) as client,
                httpx2.Client(base_url=url, timeout=30) as anonymous,
            ):
                anonymous.get("/healthz").raise_for_status()
                service = Service(
                    address=address,
                    client=client,
                    anonymous=anonymous,
                    parts=app.state.service,
                    folder=folder / "store",
                    uploads=uploads,
                )
                client.headers |= mint(service, *Scope)
                yield service
        finally:
            server.should_exit = True
            thread.join()


def mint(
    service: Service,
    *scopes: str,
    project: str = "default",
    name: str = "test",
    lifetime: timedelta | None = None,
) -> dict[str, str]:
    """The headers of a new token."""
    _, secret = service.parts.tokens.create(
        name=name, scopes=[Scope(scope) for scope in scopes], by="tests", project=project, lifetime=lifetime
    )
    return {"Authorization": f"Bearer {secret}"}
