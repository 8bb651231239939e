"""Catalogue of public faults, and which runs look like them."""

from __future__ import annotations

from fastapi import APIRouter, Request
from fastapi.responses import Response

from gradassay.api.auth.guard import Reader
from gradassay.api.service import ServiceDependency
from gradassay.api.web.page import Crumb, page
from gradassay.api.web.queries.look_alikes import counts, look_alikes
from gradassay.api.web.views.faults import find, listed
from gradassay.goldens.errors import NotFound

router = APIRouter()


@router.get("/faults")
def list_faults(request: Request, service: ServiceDependency, caller: Reader, q: str = "") -> Response:
    """The faults that hold the words of `q`, those that runs look like first."""
    return page(
        request,
        "faults.html",
        title="Public faults",
        caller=caller,
        crumbs=(Crumb(text="Faults"),),
        words=q,
        faults=listed(counts(service.database, caller.project), q),
        total=len(listed({})),
    )


@router.get("/faults/{fault}")
def show_fault(request: Request, service: ServiceDependency, caller: Reader, fault: str) -> Response:
    """One fault, and the newest runs that look like it."""
    found = find(fault)
    if found is None:
        raise NotFound(f"fault {fault[:80]!r} is not in the catalogue", hint="/faults lists all of them")
    return page(
        request,
        "fault.html",
        title=found.id,
        caller=caller,
        crumbs=(Crumb(text="Faults", url="/faults"), Crumb(text=found.id)),
        fault=found,
        runs=look_alikes(service.database, caller.project, fault),
    )
