"""Any two runs side by side."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Request
from fastapi.responses import Response

from gradassay.api.auth.guard import Reader
from gradassay.api.service import ServiceDependency
from gradassay.api.web.address import link
from gradassay.api.web.page import Crumb, page
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
    shown: dict[str, object] = {"judged": None, "error": None}
    try:
        if a and b:
            one, two = service.runs.find(a, caller), service.runs.find(b, caller)
            judged = service.assays.compare(one, two)
            wanted = Wanted(search=q, family=family, verdict=verdict, sort=sort, page=number)
            shown |= {
                "judged": judged,
                "one": one,
                "two": two,
                "assay": AssayPage(judged.document, wanted),
                "command": diff_command(f"run:{one.id}", f"run:{two.id}", base_url(request)),
                "history": lambda name: link("/history", problem=two.problem, dtype=two.dtype, parameter=name),
            }
    except GradassayError as error:
        shown["error"] = error
    return page(
        request,
        "diff.html",
        title="Diff",
        caller=caller,
        crumbs=(Crumb(text="Diff"),)
        if not shown["judged"]
        else (
            Crumb(text="Diff", url="/diff"),
            Crumb(text=f"{short(a)} and {short(b)}"),
        ),
        status=shown["error"].kind.http_status if isinstance(shown["error"], GradassayError) else 200,
        a=a,
        b=b,
        offered=service.runs.page(caller.project, limit=OFFERED_RUNS).items,
        **shown,
    )
