"""Dependencies of routes that say who calls and what that takes."""

from __future__ import annotations

import secrets
from typing import Annotated

from fastapi import Depends, Request, Security
from fastapi.security import APIKeyCookie, HTTPBearer

from gradassay.api.auth.caller import Caller
from gradassay.api.auth.origin import SAFE_METHODS
from gradassay.api.auth.scope import Scope
from gradassay.goldens.errors import Forbidden, Unauthorised

COOKIE = "gradassay_session"
CSRF_HEADER = "X-CSRF-Token"
CSRF_FIELD = "csrf"
FORM = "application/x-www-form-urlencoded"

# They only describe for OpenAPI what the gate has done by then.
_bearer = HTTPBearer(scheme_name="token", description="a token, gat_…", auto_error=False)
_cookie = APIKeyCookie(name=COOKIE, scheme_name="session", description="a browser's session", auto_error=False)


async def caller_of(
    request: Request, _by_token: Annotated[object, Security(_bearer)], _by_session: Annotated[object, Security(_cookie)]
) -> Caller:
    """Whom the gate has let in; a session's unsafe request must repeat the session's CSRF token.

    Raises Unauthorised where nobody was let in, Forbidden for a wrong CSRF token.
    """
    caller: Caller | None = getattr(request.state, "caller", None)
    if caller is None:
        raise Unauthorised("this needs a token", hint="send Authorization: Bearer gat_…")
    if caller.csrf is not None and request.method not in SAFE_METHODS:
        await _check_csrf(request, caller.csrf)
    return caller


async def _check_csrf(request: Request, expected: str) -> None:
    given: object = request.headers.get(CSRF_HEADER)
    if given is None and request.headers.get("content-type", "").partition(";")[0].strip().lower() == FORM:
        given = (await request.form()).get(CSRF_FIELD)
    if not isinstance(given, str) or not secrets.compare_digest(given.encode(), expected.encode()):
        raise Forbidden(
            f"the request does not carry its session's CSRF token in {CSRF_HEADER} or the form field {CSRF_FIELD}",
            hint="load the page again and repeat what you did",
        )


Reader = Annotated[Caller, Depends(caller_of)]
"""Anyone who was let in; reads their own project."""


def _poster(caller: Reader) -> Caller:
    caller.require(Scope.POST)
    return caller


def _reviewer(caller: Reader) -> Caller:
    caller.require(Scope.REVIEW)
    return caller


def _administrator(caller: Reader) -> Caller:
    caller.require(Scope.ADMIN)
    return caller


Poster = Annotated[Caller, Depends(_poster)]
"""Posts runs and proposes goldens."""

Reviewer = Annotated[Caller, Depends(_reviewer)]
"""Decides about goldens and divergences."""

Administrator = Annotated[Caller, Depends(_administrator)]
"""Sees and revokes tokens, and runs the service."""
