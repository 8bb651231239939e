"""Any two runs side by side."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from fastapi.responses import Response

from gradassay.api.auth.guard import Reader
from gradassay.api.judging.judged import Judged
from gradassay.api.runs.run import Run
from gradassay.api.service import ServiceDependency
from gradassay.api.web.address import link
from gradassay.api.web.page import WAIT_S, Crumb, page
from gradassay.api.web.views.assay import AssayPage
from gradassay.api.web.views.commands import diff_command
from gradassay.api.web.views.parameters import Wanted
from gradassay.api.web.words import base_url, short
from gradassay.goldens.errors import GradassayError

OFFERED_RUNS = 100
router = APIRouter()


@router.get("/diff")
def show_diff(
    request: Request,
    service: ServiceDependency,
    caller: Reader,
    a: str = "",
    b: str = "",
    q: str = "",
    family: str = "",
    verdict: str = "",
    sort: str = "",
    number: Annotated[int, Query(alias="page", ge=1)] = 1,
) -> Response:
    """Run b against run a; without both, the form that picks them."""
    error: GradassayError | None = None
    shown: dict[str, Any] = {}
    if a and b:
        try:
            one, two = service.runs.find(a, caller), service.runs.find(b, caller)
            judged = service.assays.judge(service.assays.question_between(one, two), wait_s=WAIT_S)
            wanted = Wanted(search=q, family=family, verdict=verdict, sort=sort, page=number)
            shown = _compared(one, two, judged, wanted, base_url(request))
        except GradassayError as failure:
            error = failure
    here = Crumb(text=f"{short(a)} and {short(b)}")
    return page(
        request,
        "diff.html",
        title="Diff",
        caller=caller,
        crumbs=(Crumb(text="Diff", url="/diff"), here) if shown else (Crumb(text="Diff"),),
        status=error.kind.http_status if error else 200,
        a=a,
        b=b,
        error=error,
        offered=service.runs.page(caller.project, limit=OFFERED_RUNS).items,
        **({"judged": None, "pending": False} | shown),
    )


def _compared(one: Run, two: Run, judged: Judged | None, wanted: Wanted, url: str) -> dict[str, Any]:
    if judged is None:
        return {"pending": True}
    return {
        "judged": judged,
        "one": one,
        "two": two,
        "assay": AssayPage(judged.document, wanted),
        "command": diff_command(f"run:{one.id}", f"run:{two.id}", url),
        "history": lambda name: link("/history", problem=two.problem, dtype=two.dtype, parameter=name),
    }
