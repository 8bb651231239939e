"""Pages: a template and what it shows in, an HTML response with the strict content policy out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from typing import Any

from fastapi import Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response
from jinja2 import ChoiceLoader, Environment, PackageLoader, PrefixLoader, StrictUndefined

from gradassay.api.auth.caller import Caller
from gradassay.api.web import flash, words
from gradassay.api.web.address import address, link
from gradassay.api.web.static_files import static_url
from gradassay.goldens.report import numbers
from gradassay.goldens.report.printable import printable

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
)
HEADERS: Mapping[str, str] = {
    "Content-Security-Policy": POLICY,
    "Cache-Control": "no-store",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Referrer-Policy": "same-origin",
    "Vary": "HX-Request, HX-Target",
    "X-Content-Type-Options": "nosniff",
}
WAIT_S = 10.0
"""How long a page waits for an assay before it says that it is being computed."""
NAVIGATION = (
    ("/", "Inbox"),
    ("/runs", "Runs"),
    ("/matrix", "Matrix"),
    ("/diff", "Diff"),
    ("/goldens", "Goldens"),
    ("/history", "History"),
    ("/faults", "Faults"),
    ("/ledger", "Ledger"),
    ("/settings", "Settings"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Crumb:
    """One step of the way to a page; the last one has no address."""

    text: str
    url: str = ""


def page(
    request: Request,
    template: str,
    *,
    title: str,
    caller: Caller | None,
    crumbs: Sequence[Crumb] = (),
    status: int = 200,
    **shown: Any,
) -> HTMLResponse:
    """The page, or only the block that htmx asks for: the one named like the element that the answer replaces.

    shown: what the template uses beside this; undefined names in a template are errors. The flash message of the
    answer before is shown once.
    """
    context = {
        "request": request,
        "title": title,
        "caller": caller,
        "crumbs": crumbs,
        "navigation": NAVIGATION,
        "section": _section(request.url.path),
        "message": flash.read(request),
        "now": datetime.now(UTC),
        **shown,
    }
    parts = environment().get_template(template)
    block = parts.blocks.get(_wanted(request))
    text = "".join(block(parts.new_context(context))) if block else parts.render(context)
    response = HTMLResponse(text, status_code=status, headers=dict(HEADERS))
    if not block:
        flash.clear(request, response)
    return response


def go(url: str, message: str = "", *, kind: str = "done") -> Response:
    """Sends the browser to `url` after a form, where the message is shown once. kind: done or failed."""
    response = RedirectResponse(url, status_code=303, headers={"Cache-Control": "no-store"})
    if message:
        flash.write(response, message, kind)
    return response


@cache
def environment() -> Environment:
    """Templates with escaping on, and the words and numbers that all of them use; those of reports are `report/NAME`."""
    reports = PrefixLoader({"report": PackageLoader("gradassay.goldens.report")})
    made = Environment(
        loader=ChoiceLoader([PackageLoader("gradassay.api.web"), reports]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=lambda value: printable(value) if type(value) is str else value,
    )
    made.filters |= {
        "factor": numbers.factor,
        "error": numbers.error,
        "scientific": numbers.scientific,
        "age": words.age,
        "moment": words.moment,
        "count": words.count,
        "day": words.day,
        "short": words.short,
    }
    made.globals |= {"static": static_url, "address": address, "link": link}
    # As a global, for htmx is answered with blocks that no import of their template has reached.
    made.globals["parts"] = made.get_template("parts.html").module
    return made


def _wanted(request: Request) -> str:
    if "HX-History-Restore-Request" in request.headers:
        return ""
    return request.headers.get("HX-Target", "").replace("-", "_")


def _section(path: str) -> str:
    return f"/{path.split('/')[1]}"
