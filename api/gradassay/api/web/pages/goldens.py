"""Goldens: what waits for review, and each golden with its versions."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Form, Request
from fastapi.responses import Response

from gradassay.api.auth.guard import Reader, Reviewer
from gradassay.api.auth.scope import Scope
from gradassay.api.ledger.deciding import Decision
from gradassay.api.ledger.visible import visible_golden, visible_version
from gradassay.api.service import ServiceDependency
from gradassay.api.web.page import Crumb, go, page
from gradassay.api.web.views.commands import build_command
from gradassay.api.web.views.waiting import Wanted, by_cause, drift_of, may_share, waiting
from gradassay.api.web.words import base_url
from gradassay.goldens.errors import Conflict, UsageError

router = APIRouter()


@router.get("/goldens")
def list_goldens(request: Request, service: ServiceDependency, caller: Reader) -> Response:
    """Every golden, and before them the versions that wait for review, by the cause of their drift."""
    goldens = service.ledger.goldens(caller.project)
    versions = [
        version for golden in goldens if golden.waiting for version in waiting(service.ledger.versions(golden.name))
    ]
    return page(
        request,
        "goldens.html",
        title="Goldens",
        caller=caller,
        crumbs=(Crumb(text="Goldens"),),
        command=build_command(base_url(request)),
        goldens=goldens,
        groups=by_cause(versions, {golden.name: golden.channels for golden in goldens}),
        reviews=Scope.REVIEW in caller.scopes,
    )


@router.post("/goldens/approve")
def approve_several(
    service: ServiceDependency,
    caller: Reviewer,
    reason: Annotated[str, Form()] = "",
    versions: Annotated[list[str] | None, Form()] = None,
) -> Response:
    """Approves the chosen versions one by one with one reason; those that somebody decided meanwhile are told."""
    wanted = [Wanted.parse(text) for text in versions or ()]
    if not wanted or not reason.strip():
        raise UsageError(
            "no version was chosen" if not wanted else "an approval must say why",
            hint="go back, tick the versions that share the cause and give the reason",
        )
    drifts = {drift_of(visible_version(service.ledger, caller, one.name, one.version), one.expected) for one in wanted}
    if len(drifts) > 1 or not all(may_share(kind) for kind, _ in drifts):
        raise UsageError(
            "these versions do not share one cause",
            hint="approve a structured change, and what was never compared, each with a reason of its own",
        )
    refused = []
    for one in wanted:
        try:
            service.ledger.decide(
                one.name,
                one.version,
                Decision.APPROVE,
                who=caller.who,
                why=reason.strip(),
                expected_version=one.expected,
                cause=next(iter(drifts))[1],
            )
        except Conflict as error:
            refused.append(error.message)
    service.assays.nudge()
    done = f"{len(wanted) - len(refused)} of {len(wanted)} approved"
    return go("/goldens", "; ".join([done, *refused]), kind="failed" if refused else "done")


@router.get("/goldens/{name:path}")
def show_golden(request: Request, service: ServiceDependency, caller: Reader, name: str) -> Response:
    """One golden: where its channels point, and its versions, newest first."""
    golden = visible_golden(service.ledger, caller, name)
    return page(
        request,
        "golden.html",
        title=name,
        caller=caller,
        crumbs=(Crumb(text="Goldens", url="/goldens"), Crumb(text=name)),
        golden=golden,
        versions=service.ledger.versions(name)[::-1],
        entries=service.ledger.entries(golden.project, golden=name, limit=20).items,
    )
