"""A real HTTP server on loopback that a fake forge answers for, with failures that a test asks for before its answers."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, TypeVar


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One that arrived."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def document(self) -> Any:
        """Its JSON."""
        return json.loads(self.body)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """What is answered. obeyed: for a planned failure, the call is done first and only its answer is lost."""

    status: int = 200
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)
    obeyed: bool = False

    @classmethod
    def of(cls, document: Any, status: int = 200, **headers: str) -> Reply:
        """JSON."""
        return cls(
            status=status, body=json.dumps(document).encode(), headers={"Content-Type": "application/json", **headers}
        )


class Fake:
    """A forge with comments on one change.

    comments: as it keeps them, oldest first. asked: every request. failures: what is answered, by method, before the right
    answers begin.
    """

    def __init__(self) -> None:
        self.url = ""
        self.comments: list[dict[str, Any]] = []
        self.asked: list[Request] = []
        self.failures: dict[str, list[Reply]] = {}
        self._turn = threading.Lock()
        self._last = 100

    def answer(self, request: Request) -> Reply:
        """The right answer."""
        raise NotImplementedError

    def write(self, author: str, body: str, **more: Any) -> dict[str, Any]:
        """A comment by somebody."""
        self._last += 1
        comment = {"id": self._last, "author": author, "body": body, **more}
        self.comments.append(comment)
        return comment

    def methods(self) -> list[str]:
        """Of the requests that arrived."""
        return [request.method for request in self.asked]

    def reply(self, request: Request) -> Reply:
        """A planned failure, else the right answer; one call at a time."""
        with self._turn:
            self.asked.append(request)
            planned = self.failures.get(request.method, [])
            if planned:
                failure = planned.pop(0)
                if failure.obeyed:
                    self.answer(request)
                return failure
            return self.answer(request)


Served = TypeVar("Served", bound=Fake)


@contextmanager
def serving(fake: Served) -> Iterator[Served]:
    """The fake, running on a port of its own."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(fake))
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    fake.url = f"http://127.0.0.1:{server.server_port}"
    try:
        yield fake
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def _handler(fake: Fake) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def answer(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            request = Request(method=self.command, path=self.path, headers=dict(self.headers.items()), body=body)
            reply = fake.reply(request)
            self.send_response(reply.status)
            if reply.status != 204:
                self.send_header("Content-Length", str(len(reply.body)))
            for name, value in reply.headers.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(reply.body)

        do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = answer  # noqa: N815

        def log_message(self, format: str, *args: Any) -> None:
            pass

    return Handler
