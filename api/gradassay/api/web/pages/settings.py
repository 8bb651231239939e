"""Settings: what the service runs with, and its tokens."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from importlib.metadata import version
from typing import Annotated, Any

from fastapi import APIRouter, Form, Request
from fastapi.responses import Response

from gradassay.api.auth.caller import Caller
from gradassay.api.auth.guard import Administrator, Reader
from gradassay.api.auth.scope import Scope
from gradassay.api.service import Service, ServiceDependency
from gradassay.api.web.page import Crumb, go, page
from gradassay.api.web.views.facts import service_facts
from gradassay.goldens.container import FORMAT
from gradassay.goldens.errors import UsageError

router = APIRouter()
MOST_DAYS = 3650


@router.get("/settings")
def show_settings(request: Request, service: ServiceDependency, caller: Reader) -> Response:
    """The service's facts; the tokens of the project for those who administer it."""
    return _page(request, service, caller)


@router.post("/settings/tokens")
def create_token(
    request: Request,
    service: ServiceDependency,
    caller: Administrator,
    name: Annotated[str, Form()] = "",
    project: Annotated[str, Form()] = "",
    scopes: Annotated[list[Scope] | None, Form()] = None,
    days: Annotated[str, Form()] = "",
) -> Response:
    """Makes a token and shows its secret, this once."""
    caller.require_operator()
    kept = {"name": name, "project": project, "scopes": scopes or (), "days": days}
    try:
        token, secret = service.tokens.create(
            name=name.strip(),
            scopes=scopes or (),
            by=caller.who,
            project=project.strip() or caller.project,
            lifetime=_lifetime(days),
        )
    except UsageError as error:
        return _page(request, service, caller, status=400, refused=error, kept=kept)
    return _page(request, service, caller, status=201, created=token, secret=secret)


@router.post("/settings/tokens/{token}/revoke")
def revoke_token(service: ServiceDependency, caller: Administrator, token: str) -> Response:
    """Makes the token worthless, and ends the sessions that it opened."""
    revoked = service.tokens.revoke(token, caller.administered)
    return go("/settings", f"The token {revoked.name!r} is revoked.")


def _lifetime(days: str) -> timedelta | None:
    number = days.strip()
    if not number:
        return None
    # int() refuses thousands of digits, with an error of its own.
    if not number.isdecimal() or len(number) > len(str(MOST_DAYS)) or not 1 <= int(number) <= MOST_DAYS:
        raise UsageError(
            f"{days[:20]!r} is no number of days", hint=f"1 to {MOST_DAYS}, or nothing for a token that does not expire"
        )
    return timedelta(days=int(number))


def _page(
    request: Request,
    service: Service,
    caller: Caller,
    *,
    status: int = 200,
    refused: UsageError | None = None,
    kept: dict[str, Any] | None = None,
    created: Any = None,
    secret: str = "",
) -> Response:
    administers = Scope.ADMIN in caller.scopes
    at = datetime.now(UTC)
    tokens = service.tokens.of_project(caller.administered) if administers else []
    return page(
        request,
        "settings.html",
        title="Settings",
        caller=caller,
        crumbs=(Crumb(text="Settings"),),
        status=status,
        facts=service_facts(service.settings, release=version("gradassay"), file_format=FORMAT),
        administers=administers,
        tokens=tokens,
        valid={token.id for token in tokens if token.is_valid(at)},
        every_scope=tuple(Scope),
        kept=kept or {"name": "", "project": caller.project, "scopes": (), "days": ""},
        refused=refused,
        created=created,
        secret=secret,
    )
