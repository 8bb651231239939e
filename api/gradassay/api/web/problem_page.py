"""Failures as pages, for browsers."""

from __future__ import annotations

from fastapi import Request
from fastapi.responses import Response

from gradassay.api.web.page import page
from gradassay.goldens.errors import GradassayError

TITLES = {
    400: "That makes no sense here",
    401: "Please log in",
    403: "You may not do that",
    404: "Not found",
    405: "That is not possible here",
    409: "Somebody else was first",
    500: "Something is broken",
    503: "Not available just now",
}


def wants_page(request: Request) -> bool:
    """Whether a failure should be a page: a browser asks for one, outside the API."""
    return not request.url.path.startswith("/api/") and "text/html" in request.headers.get("accept", "")


def problem_page(request: Request, error: GradassayError, status: int) -> Response:
    """The failure as a page that says what happened and what to do."""
    return page(
        request,
        "problem.html",
        title=TITLES.get(status, error.kind.meaning.capitalize()),
        caller=getattr(request.state, "caller", None),
        status=status,
        code=error.code,
        status_code=status,
        detail=error.message,
        hint=error.hint,
        request_id=getattr(request.state, "request_id", ""),
    )
