"""All runs, newest first."""

from __future__ import annotations

from fastapi import APIRouter, Request
from fastapi.responses import Response

from gradassay.api.auth.guard import Reader
from gradassay.api.paging import from_cursor, to_cursor
from gradassay.api.service import ServiceDependency
from gradassay.api.web.page import Crumb, page
from gradassay.api.web.queries.offered import offered
from gradassay.api.web.queries.verdicts import verdicts
from gradassay.api.web.views.commands import post_commands
from gradassay.api.web.words import base_url

PAGE_SIZE = 50
router = APIRouter()


@router.get("/runs")
def list_runs(
    request: Request,
    service: ServiceDependency,
    caller: Reader,
    problem: str = "",
    dtype: str = "",
    strategy: str = "",
    framework: str = "",
    before: str = "",
) -> Response:
    """The runs that fit, each with its verdict against what is approved."""
    chosen = {"problem": problem, "dtype": dtype, "strategy": strategy, "framework": framework}
    found = service.runs.page(
        caller.project,
        **{name: value or None for name, value in chosen.items()},
        before=from_cursor(before),
        limit=PAGE_SIZE,
    )
    with service.database.read() as session:
        known = verdicts(session, [run.id for run in found.items])
    return page(
        request,
        "runs.html",
        title="Runs",
        caller=caller,
        crumbs=(Crumb(text="Runs"),),
        runs=found.items,
        known=known,
        chosen=chosen,
        offered=offered(service.database, caller.project),
        next=to_cursor(found.next),
        first=not before,
        commands=post_commands(base_url(request)),
    )
