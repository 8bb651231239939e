"""A real HTTP server on loopback that gives prepared answers, one after the other, and remembers what it was asked."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """One answer. cut: close the connection after this many bytes of the request's body, answering nothing."""

    status: int = 200
    body: bytes = b"{}"
    headers: dict[str, str] = field(default_factory=dict)
    cut: int | None = None

    @classmethod
    def of(cls, document: Any, status: int = 200, **headers: str) -> Answer:
        """JSON."""
        named = {"Content-Type": "application/json"} | {k.replace("_", "-"): v for k, v in headers.items()}
        return cls(status=status, body=json.dumps(document).encode(), headers=named)

    @classmethod
    def problem(cls, status: int, code: str, **more: Any) -> Answer:
        """A problem document as the service writes it."""
        document = {"status": status, "code": code, "detail": f"said {code}", "hint": "what to do"} | more
        return cls(
            status=status, body=json.dumps(document).encode(), headers={"Content-Type": "application/problem+json"}
        )


@dataclass(slots=True, kw_only=True)
class Asked:
    """One request that arrived."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes


@dataclass(slots=True, kw_only=True)
class Scripted:
    """The running server. The last answer is repeated."""

    url: str
    asked: list[Asked]


@contextmanager
def answering(*answers: Answer) -> Iterator[Scripted]:
    """A server that gives these answers."""
    asked: list[Asked] = []
    server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(answers, asked))
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield Scripted(url=f"http://127.0.0.1:{server.server_port}", asked=asked)
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def free_port() -> int:
    """A port on loopback that nothing listens on just now."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
        return port


def _handler(answers: Sequence[Answer], asked: list[Asked]) -> type[BaseHTTPRequestHandler]:
    turn = threading.Lock()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def answer(self) -> None:
            with turn:
                answer = answers[min(len(asked), len(answers) - 1)]
                request = Asked(method=self.command, path=self.path, headers=dict(self.headers.items()), body=b"")
                asked.append(request)
            length = int(self.headers.get("Content-Length", 0))
            request.body = self.rfile.read(length if answer.cut is None else min(answer.cut, length))
            if answer.cut is not None:
                self.close_connection = True
                self.connection.shutdown(socket.SHUT_RDWR)
                return
            self.send_response(answer.status)
            for name, value in {"Content-Length": str(len(answer.body)), **answer.headers}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(answer.body)

        do_GET = do_POST = do_PUT = do_DELETE = answer  # noqa: N815

        def log_message(self, format: str, *args: Any) -> None:
            pass

    return Handler
