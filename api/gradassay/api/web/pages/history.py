"""Parameter history: ratio and residual of one parameter over the runs."""

from __future__ import annotations

from fastapi import APIRouter, Request
from fastapi.responses import Response

from gradassay.api.auth.guard import Reader
from gradassay.api.service import ServiceDependency
from gradassay.api.web.page import Crumb, page
from gradassay.api.web.queries.cells import Narrowing, choices, settled
from gradassay.api.web.queries.history import RUNS, judged_runs
from gradassay.api.web.views.commands import post_commands
from gradassay.api.web.views.history import history, names, plot, worst
from gradassay.api.web.words import base_url

router = APIRouter()


@router.get("/history")
def show_history(
    request: Request,
    service: ServiceDependency,
    caller: Reader,
    problem: str = "",
    dtype: str = "",
    parameter: str = "",
    framework: str = "",
    version: str = "",
) -> Response:
    """The history of one parameter; where none is asked for, of the one that the newest run misses most."""
    asked = Narrowing(problem=problem, dtype=dtype, framework=framework, version=version)
    narrowing = settled(service.database, caller.project, asked)
    judged = judged_runs(service.database, caller.project, narrowing)
    chosen = parameter or (worst(judged[-1].document) if judged else "")
    points = history(judged, chosen)
    return page(
        request,
        "history.html",
        title="Parameter history",
        caller=caller,
        crumbs=(Crumb(text="History"),),
        commands=post_commands(base_url(request)),
        narrowing=narrowing,
        choices=choices(service.database, caller.project, narrowing),
        parameter=chosen,
        chosen_for_you=not parameter,
        names=names([one.document for one in judged[-1:]]),
        runs=len(judged),
        at_most=RUNS,
        points=points,
        plot=plot(points),
    )
