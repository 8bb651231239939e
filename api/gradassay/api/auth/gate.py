"""Nothing gets past without a token or a session, but what is meant to be public."""

from __future__ import annotations

from urllib.parse import quote

from fastapi import Request
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import RedirectResponse
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from gradassay.api.auth.caller import Caller
from gradassay.api.auth.guard import COOKIE
from gradassay.api.auth.origin import SAFE_METHODS, require_same_origin
from gradassay.api.problem import problem
from gradassay.api.web.problem_page import wants_page
from gradassay.goldens.errors import GradassayError, Unauthorised

PUBLIC = frozenset({"/healthz", "/readyz", "/version", "/login", "/api/v1/tokens/exchange"})
PUBLIC_FOLDERS = ("/login/", "/static/")
LOGIN = "/login"


class Gate:
    """ASGI middleware that finds out who calls, before anything of the body is read; the caller is `request.state.caller`.

    Whatever is not public answers 401, and sends a browser that wants a page to the login.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Lets the request through, or answers it."""
        if scope["type"] != "http" or _is_public(scope["path"]):
            await self._app(scope, receive, send)
            return
        request = Request(scope)
        try:
            request.state.caller = await run_in_threadpool(_identify, request)
        except GradassayError as error:
            await _refusal(request, error)(scope, receive, send)
            return
        await self._app(scope, receive, send)


def _is_public(path: str) -> bool:
    return path in PUBLIC or path.startswith(PUBLIC_FOLDERS)


def _identify(request: Request) -> Caller:
    """Whom the request comes from: its token, which alone counts where there is one, or its session."""
    service = request.app.state.service
    authorization, cookie = request.headers.get("authorization"), request.cookies.get(COOKIE)
    if authorization is not None:
        scheme, _, secret = authorization.partition(" ")
        token = service.tokens.find(secret.strip()) if scheme.lower() == "bearer" else None
        if token is None:
            raise Unauthorised(
                "the token is unknown, revoked or expired",
                hint="send Authorization: Bearer gat_… with one that is valid",
            )
        caller: Caller = token.caller
        return caller
    session = service.logins.find(cookie) if cookie else None
    if session is None:
        raise Unauthorised(
            f"{request.method} {request.url.path} needs a token",
            hint="send Authorization: Bearer gat_…; gradassay token create, on the service's machine, makes one",
        )
    if request.method not in SAFE_METHODS:
        require_same_origin(request)
    found: Caller = session
    return found


def _refusal(request: Request, error: GradassayError) -> Response:
    if not isinstance(error, Unauthorised) or "authorization" in request.headers:
        return problem(request, error)
    if "hx-request" in request.headers:
        response = problem(request, error)
        response.headers["HX-Redirect"] = LOGIN
        return response
    if not wants_page(request):
        return problem(request, error)
    asked = request.url.path + (f"?{request.url.query}" if request.url.query else "")
    target = f"{LOGIN}?next={quote(asked, safe='')}" if request.method in SAFE_METHODS and asked != "/" else LOGIN
    return RedirectResponse(target, status_code=303, headers={"Cache-Control": "no-store"})
