"""Logging in and out with a browser."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Form, Query, Request
from fastapi.responses import RedirectResponse, Response

from gradassay.api.auth.guard import COOKIE, Reader
from gradassay.api.auth.logins import Opened
from gradassay.api.auth.origin import require_same_origin
from gradassay.api.service import Service, ServiceDependency
from gradassay.api.web.page import go, page
from gradassay.goldens.errors import Unauthorised

HOME = "/"
LONGEST_ADDRESS = 2000

router = APIRouter(include_in_schema=False)


@router.get("/login")
def show_login(request: Request, wanted: Annotated[str, Query(alias="next")] = HOME) -> Response:
    """The page that takes a token."""
    return _login_page(request, wanted=safe_path(wanted))


@router.post("/login")
def log_in(
    request: Request,
    service: ServiceDependency,
    token: Annotated[str, Form()] = "",
    wanted: Annotated[str, Form(alias="next")] = HOME,
) -> Response:
    """Opens a session that may do what the token may, and goes on to the page that was wanted."""
    require_same_origin(request)
    found = service.tokens.find(token.strip())
    if found is None:
        refused = Unauthorised(
            "this token is unknown, revoked or expired",
            hint="gradassay token create, on the service's machine, makes one",
        )
        return _login_page(request, wanted=safe_path(wanted), error=refused)
    return _opened(request, service, service.logins.open(found), safe_path(wanted))


@router.get("/login/{secret}")
def follow_link(request: Request, service: ServiceDependency, secret: str) -> Response:
    """Opens the session that a login link is for; the link is worth nothing afterwards."""
    try:
        opened = service.logins.follow(secret)
    except Unauthorised as error:
        return _login_page(request, wanted=HOME, error=error)
    return _opened(request, service, opened, HOME)


@router.post("/logout")
def log_out(request: Request, service: ServiceDependency, _caller: Reader) -> Response:
    """Ends the session."""
    service.logins.close(request.cookies.get(COOKIE, ""))
    response = go("/login", "You are logged out.")
    response.delete_cookie(COOKIE, httponly=True, samesite="lax", secure=_is_secure(request))
    return response


def safe_path(wanted: str) -> str:
    """The path where it is one of this service, else the first page: a link must not lead elsewhere after the login."""
    local = wanted.startswith("/") and not wanted.startswith("//") and wanted.isascii() and wanted.isprintable()
    return wanted if local and "\\" not in wanted and len(wanted) <= LONGEST_ADDRESS else HOME


def _opened(request: Request, service: Service, opened: Opened, wanted: str) -> Response:
    if before := request.cookies.get(COOKIE):
        service.logins.close(before)
    response = RedirectResponse(wanted, status_code=303, headers={"Cache-Control": "no-store"})
    # Lax: a link in a chat or in a pull request leads to the page that it names, not to the login.
    response.set_cookie(
        COOKIE, opened.secret, expires=opened.expires_at, httponly=True, samesite="lax", secure=_is_secure(request)
    )
    return response


def _is_secure(request: Request) -> bool:
    return request.url.scheme == "https"


def _login_page(request: Request, *, wanted: str, error: Unauthorised | None = None) -> Response:
    status = 200 if error is None else error.kind.http_status
    return page(request, "login.html", title="Log in", caller=None, status=status, wanted=wanted, error=error)
