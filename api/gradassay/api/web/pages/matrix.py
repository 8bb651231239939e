"""Layout matrix: strategies by layouts, a cell is the newest verdict."""

from __future__ import annotations

from fastapi import APIRouter, Request
from fastapi.responses import Response

from gradassay.api.auth.guard import Reader
from gradassay.api.service import ServiceDependency
from gradassay.api.web.page import Crumb, page
from gradassay.api.web.queries.cells import Narrowing, choices, newest, settled
from gradassay.api.web.views.commands import post_commands
from gradassay.api.web.views.marks import legend
from gradassay.api.web.views.matrix import matrix
from gradassay.api.web.words import base_url

router = APIRouter()


@router.get("/matrix")
def show_matrix(
    request: Request,
    service: ServiceDependency,
    caller: Reader,
    problem: str = "",
    dtype: str = "",
    framework: str = "",
    version: str = "",
) -> Response:
    """The matrix of one problem and dtype, of all frameworks or of one, of all its releases or of one."""
    asked = Narrowing(problem=problem, dtype=dtype, framework=framework, version=version)
    narrowing = settled(service.database, caller.project, asked)
    return page(
        request,
        "matrix.html",
        title="Layout matrix",
        caller=caller,
        crumbs=(Crumb(text="Matrix"),),
        commands=post_commands(base_url(request)),
        narrowing=narrowing,
        choices=choices(service.database, caller.project, narrowing),
        matrix=matrix(newest(service.database, caller.project, narrowing)),
        legend=legend(),
    )
