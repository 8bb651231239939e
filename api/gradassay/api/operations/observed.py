"""Every request: given an id, bounded by headers that keep browsers safe, timed, counted and logged."""

from __future__ import annotations

import re
import time
import uuid
from collections.abc import Mapping
from typing import Any

import structlog
from sqlalchemy.exc import InterfaceError, OperationalError, TimeoutError
from starlette.datastructures import MutableHeaders
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from gradassay.api.operations import metrics
from gradassay.api.problem import Bug, problem
from gradassay.goldens.errors import GradassayError, Unreachable

REQUEST_ID = "x-request-id"
METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
ROUTINE = frozenset({"/healthz", "/readyz", "/metrics"})
"""Routes that machines ask every few seconds; they are logged where they fail."""
GONE = 499
"""What is logged where the client went away, or the service stopped, before the answer began."""
_SANE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_HEADERS: Mapping[str, str] = {
    "content-security-policy": "default-src 'none'; frame-ancestors 'none'",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "referrer-policy": "same-origin",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
}
"""For every answer that does not say otherwise itself; pages bring their own content-security-policy."""
log = structlog.get_logger("gradassay.request")


class Observed:
    """ASGI middleware around the whole application; what it raises leaves as a problem document, its traceback in the log."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Passes the request on."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        began, status, state = time.perf_counter(), GONE, scope.setdefault("state", {})
        state["request_id"] = request_id = _request_id(scope)

        async def answer(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                headers = MutableHeaders(scope=message)
                headers[REQUEST_ID] = request_id
                for name, value in _HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        with structlog.contextvars.bound_contextvars(request_id=request_id):
            try:
                await self.app(scope, receive, answer)
            except Exception as error:
                request = Request(scope)
                failure = _failure(request, error)
                if failure is not error:
                    log.exception("unexpected error", method=_method(scope), route=route_of(scope))
                if status != GONE:
                    raise
                await problem(request, failure)(scope, receive, answer)
            finally:
                _record(scope, status, time.perf_counter() - began)


def route_of(scope: Scope) -> str:
    """The template of the route that took the request, as in `/api/v1/runs/{run}`; `unmatched` where none did."""
    path = getattr(scope.get("route"), "path", None)
    if isinstance(path, str) and not scope.get("root_path"):
        return path
    return f"{scope['root_path']}/*" if scope.get("root_path") else "unmatched"


def _record(scope: Scope, status: int, seconds: float) -> None:
    method, route = _method(scope), route_of(scope)
    metrics.count_request(method, route, status, seconds)
    if route in ROUTINE and status < 400:
        return
    facts: dict[str, Any] = {"method": method, "route": route, "status": status, "seconds": round(seconds, 4)}
    caller = scope["state"].get("caller")
    if caller is not None:
        facts |= {"caller": caller.who, "project": caller.project}
    log.info("request", **facts)


def _method(scope: Scope) -> str:
    return scope["method"] if scope["method"] in METHODS else "other"


def _request_id(scope: Scope) -> str:
    for name, value in scope["headers"]:
        if name == REQUEST_ID.encode() and _SANE.fullmatch(value.decode("latin-1")):
            return str(value.decode("latin-1"))
    return uuid.uuid4().hex


def _failure(request: Request, error: Exception) -> GradassayError:
    if isinstance(error, GradassayError):
        return error
    if isinstance(error, OperationalError | InterfaceError | TimeoutError):
        return Unreachable("the service's database does not answer", hint="try again; the service's log says why")
    message = f"{request.method} {request.url.path} failed: {type(error).__name__}"
    return Bug(message, hint="the service's log has the traceback; please report it")
