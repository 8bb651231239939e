"""One message from a form to the page that the browser is sent to, kept in a cookie until it was shown."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import quote, unquote

from fastapi import Request
from fastapi.responses import Response

COOKIE = "gradassay_message"
LONGEST = 3500
"""Characters of the cookie; browsers drop one of more than 4,096."""
KINDS = ("done", "failed")


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """What happened. kind: done or failed."""

    text: str
    kind: str


def read(request: Request) -> Message | None:
    """The message that waits to be shown."""
    kind, _, text = request.cookies.get(COOKIE, "").partition(".")
    return Message(text=unquote(text), kind=kind) if kind in KINDS and text else None


def write(response: Response, text: str, kind: str) -> None:
    """Leaves a message for the next page."""
    while len(quoted := quote(text, safe="", errors="replace")) > LONGEST:
        text = text[: len(text) * LONGEST // len(quoted)]
    value = f"{kind}.{quoted}"
    response.set_cookie(COOKIE, value, max_age=60, httponly=True, samesite="lax")


def clear(request: Request, response: Response) -> None:
    """Forgets the message, now that it was shown."""
    if COOKIE in request.cookies:
        response.delete_cookie(COOKIE, httponly=True, samesite="lax")
