"""One version of a golden, and the decision about it."""

from __future__ import annotations

from typing import Annotated, Any
from urllib.parse import quote

from fastapi import APIRouter, Form, Request
from fastapi.responses import Response

from gradassay.api.auth.caller import Caller
from gradassay.api.auth.guard import Reader, Reviewer
from gradassay.api.auth.scope import Scope
from gradassay.api.ledger.deciding import Decision
from gradassay.api.ledger.entry import Action
from gradassay.api.ledger.version import Version
from gradassay.api.ledger.visible import visible_version
from gradassay.api.service import Service, ServiceDependency
from gradassay.api.web.number import NUMBER
from gradassay.api.web.page import Crumb, go, page
from gradassay.api.web.views.golden import environments, families, noise_plot
from gradassay.goldens.errors import Conflict, UsageError
from gradassay.goldens.store.approval import DEFAULT_CHANNEL

router = APIRouter()
SAID = {
    Action.APPROVED: "approved",
    Action.ENDORSED: "approved by you; a second reviewer has to approve it as well",
    Action.REJECTED: "rejected",
}


@router.get("/goldens/{name:path}/v" + NUMBER)
def show_version(request: Request, service: ServiceDependency, caller: Reader, name: str, number: int) -> Response:
    """What the version holds, how it differs from what is approved, and the forms to decide."""
    version = visible_version(service.ledger, caller, name, number)
    return _page(request, service, caller, version)


@router.post("/goldens/{name:path}/v" + NUMBER)
def decide(
    request: Request,
    service: ServiceDependency,
    caller: Reviewer,
    name: str,
    number: int,
    decision: Annotated[Decision, Form()],
    expected_version: Annotated[int, Form(ge=0)],
    reason: Annotated[str, Form()] = "",
) -> Response:
    """Approves or rejects; whoever comes second gets the page back with who was first, and with the reason they wrote."""
    version = visible_version(service.ledger, caller, name, number)
    if not reason.strip():
        wanted = "an approval" if decision is Decision.APPROVE else "a rejection"
        refused = UsageError(f"{wanted} must say why", hint="the reason stays in the ledger for those who come later")
        return _page(request, service, caller, version, refused=refused, decision=decision)
    try:
        entry = service.ledger.decide(
            name, number, decision, who=caller.who, why=reason.strip(), expected_version=expected_version
        )
    except Conflict as conflict:
        after = service.ledger.version(name, number)
        return _page(request, service, caller, after, refused=conflict, decision=decision, reason=reason)
    service.assays.nudge()
    return go(_address(name, number), f"{name} v{number} is {SAID[entry.action]}.")


def _page(
    request: Request,
    service: Service,
    caller: Caller,
    version: Version,
    *,
    refused: Conflict | UsageError | None = None,
    **kept: Any,
) -> Response:
    name, number = version.name, version.version
    approved = service.ledger.channels(name).get(DEFAULT_CHANNEL, 0)
    before = service.ledger.version(name, approved) if approved not in (0, number) else None
    rows = families(version.facts)
    entries = [
        entry
        for entry in service.ledger.entries(version.project, golden=name, limit=200).items
        if number in (entry.version, entry.previous)
    ]
    return page(
        request,
        "version.html",
        title=f"{name} v{number}",
        caller=caller,
        crumbs=(
            Crumb(text="Goldens", url="/goldens"),
            Crumb(text=name, url=f"/goldens/{quote(name)}"),
            Crumb(text=f"v{number}"),
        ),
        status=refused.kind.http_status if refused else 200,
        version=version,
        approved=approved,
        before=before,
        families=rows,
        noise=noise_plot(rows),
        environment=environments(before.facts.get("environment", {}) if before else {}, version.facts["environment"]),
        entries=entries,
        reviewers=service.settings.reviewers,
        reviews=Scope.REVIEW in caller.scopes,
        refused=refused,
        decision=kept.get("decision"),
        reason=kept.get("reason", ""),
    )


def _address(name: str, number: int) -> str:
    return f"/goldens/{quote(name)}/v{number}"
