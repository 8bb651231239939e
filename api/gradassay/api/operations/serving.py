"""A server on a port: from settings until somebody stops it."""

from __future__ import annotations

import errno
import math
import signal
import socket
from collections.abc import Callable
from dataclasses import dataclass
from ipaddress import ip_address

import uvicorn

from gradassay.api.app import create_app
from gradassay.api.operations.logs import configure_logs
from gradassay.api.problem import Bug
from gradassay.api.service import Service
from gradassay.api.settings import ServiceSettings
from gradassay.goldens.errors import UsageError

BACKLOG = 2048


@dataclass(frozen=True, slots=True, kw_only=True)
class Serving:
    """A service that answers now. url: where; loopback: nobody but this machine reaches it."""

    service: Service
    url: str
    loopback: bool


def serve(settings: ServiceSettings, announce: Callable[[Serving], None]) -> None:
    """Serves until SIGINT or SIGTERM, then lets requests in flight finish; `announce` is called once requests are answered.

    Raises UsageError where the port cannot be had or the database cannot be used, before anything is served.
    """
    with _listening(settings.host, settings.port) as listening:
        service = Service.open(settings)
        configure_logs()
        server = _Server(
            uvicorn.Config(
                create_app(service=service),
                lifespan="on",
                log_config=None,
                access_log=False,
                server_header=False,
                timeout_graceful_shutdown=math.ceil(settings.shutdown_s),
            ),
            started=lambda: announce(_serving(service, listening)),
            stopping=service.assays.stopping.set,
        )
        # uvicorn raises the signal that stopped it once more when it is done; to be told to stop is no failure.
        for asked in (signal.SIGINT, signal.SIGTERM):
            signal.signal(asked, signal.SIG_IGN)
        try:
            server.run(sockets=[listening])
        except SystemExit as error:
            raise Bug("the service did not start", hint="its log says why") from error


class _Server(uvicorn.Server):
    def __init__(self, config: uvicorn.Config, *, started: Callable[[], None], stopping: Callable[[], None]) -> None:
        super().__init__(config)
        self._started, self._stopping = started, stopping

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._started()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._stopping()
        await super().shutdown(sockets)


def _serving(service: Service, listening: socket.socket) -> Serving:
    host, port = listening.getsockname()[:2]
    written = f"[{host}]" if ":" in host else host
    return Serving(service=service, url=f"http://{written}:{port}", loopback=ip_address(host).is_loopback)


def _listening(host: str, port: int) -> socket.socket:
    try:
        family, kind, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[
            0
        ]
    except socket.gaierror as error:
        raise UsageError(
            f"host {host!r} is no address ({error.strerror})", hint="write 127.0.0.1 or 0.0.0.0"
        ) from error
    made = socket.socket(family, kind)
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind(address)
        made.listen(BACKLOG)
    except OSError as error:
        made.close()
        raise UsageError(f"{host} port {port} cannot be had ({error.strerror})", hint=_remedy(error)) from error
    return made


def _remedy(error: OSError) -> str:
    if error.errno == errno.EADDRINUSE:
        return "end what listens there, or choose another port with --port; 0 takes one that is free"
    if error.errno == errno.EACCES:
        return "ports below 1024 belong to the system; choose another with --port"
    return "choose an address that this machine has, with --host"
