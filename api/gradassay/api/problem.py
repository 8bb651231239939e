"""Every failure as one problem document (RFC 9457) with the stable code of gradassay's error table."""

from __future__ import annotations

import json
from typing import Any, ClassVar

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import Response
from starlette.exceptions import HTTPException
from starlette.status import HTTP_401_UNAUTHORIZED

from gradassay.api.web.problem_page import problem_page, wants_page
from gradassay.goldens.errors import GradassayError, NotFound, TooLarge, UsageError

MEDIA_TYPE = "application/problem+json"
_BY_STATUS: dict[int, type[GradassayError]] = {404: NotFound, 413: TooLarge}


class Bug(GradassayError):
    """An exception that nobody expected; its text stays in the log."""

    code: ClassVar[str] = "bug"


def problem(request: Request, error: GradassayError, *, status: int | None = None) -> Response:
    """The problem document of an error, as a page for browsers; status: where HTTP itself knows better than the error table."""
    status = status or error.kind.http_status
    if wants_page(request):
        return problem_page(request, error, status)
    document: dict[str, Any] = {
        "type": f"urn:gradassay:problem:{error.code}",
        "title": error.kind.meaning,
        "status": status,
        "detail": error.message,
        "instance": request.url.path,
        "code": error.code,
        "hint": error.hint,
        "facts": {name: value if isinstance(value, int | str) else str(value) for name, value in error.facts.items()},
        "request_id": getattr(request.state, "request_id", ""),
    }
    headers = {"WWW-Authenticate": 'Bearer realm="gradassay"'} if status == HTTP_401_UNAUTHORIZED else {}
    # In ASCII: it may repeat what a client sent, and half a character of that has no bytes in UTF-8.
    return Response(json.dumps(document), status_code=status, media_type=MEDIA_TYPE, headers=headers)


def add_problem_handlers(app: FastAPI) -> None:
    """Makes every failure of the app leave as a problem document."""

    @app.exception_handler(GradassayError)
    def known(request: Request, error: GradassayError) -> Response:
        return problem(request, error)

    @app.exception_handler(RequestValidationError)
    def invalid(request: Request, error: RequestValidationError) -> Response:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        return problem(request, UsageError(f"{where}: {first['msg']}, found {first.get('input')!r}"[:500]))

    @app.exception_handler(HTTPException)
    def by_http(request: Request, error: HTTPException) -> Response:
        kind = _BY_STATUS.get(error.status_code, UsageError)
        failure = kind(f"{request.method} {request.url.path}: {error.detail}", hint="see /openapi.json")
        return problem(request, failure, status=error.status_code)

    @app.exception_handler(Exception)
    def unexpected(request: Request, error: Exception) -> Response:
        message = f"{request.method} {request.url.path} failed: {type(error).__name__}"
        return problem(request, Bug(message, hint="the service's log has the traceback; please report it"))
