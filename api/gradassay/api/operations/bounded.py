"""Bodies of requests, which are read into memory, kept from filling it."""

from __future__ import annotations

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.status import HTTP_413_CONTENT_TOO_LARGE
from starlette.types import ASGIApp, Message, Receive, Scope, Send

MOST_BYTES = 2**25
MOST_BYTES_OF_STRANGERS = 2**16


class Bounded:
    """ASGI middleware that ends a request with 413 where more arrives than a body may have: a JSON document or a form, and
    less of somebody whom the gate did not identify. Whoever streams a body to disk instead says `let_through`.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Passes the request on."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        state, size = scope.setdefault("state", {}), 0
        state["most_bytes"] = MOST_BYTES if "caller" in state else MOST_BYTES_OF_STRANGERS

        async def bounded() -> Message:
            nonlocal size
            message = await receive()
            size += len(message.get("body", b""))
            most = state["most_bytes"]
            if most is not None and size > most:
                raise HTTPException(HTTP_413_CONTENT_TOO_LARGE, f"a body of more than {most} bytes")
            return message

        await self._app(scope, bounded, send)


def let_through(request: Request) -> None:
    """Leaves the body of this request to a limit of its own."""
    request.state.most_bytes = None
