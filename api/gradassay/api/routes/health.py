"""Whether the service runs, whether it can work, which release it is, and what it has counted."""

from __future__ import annotations

from importlib.metadata import version
from typing import Any, Literal

from fastapi import APIRouter, Request, Response
from pydantic import BaseModel

from gradassay.api.auth.caller import EVERY_PROJECT
from gradassay.api.auth.guard import Reader
from gradassay.api.operations import metrics
from gradassay.api.operations.readiness import OK, Readiness
from gradassay.goldens.container import FORMAT
from gradassay.goldens.errors import Forbidden, Unreachable

EXPOSITION: dict[int | str, dict[str, Any]] = {200: {"content": {"text/plain": {"schema": {"type": "string"}}}}}

router = APIRouter(tags=["service"])


class Health(BaseModel):
    """The process answers; says nothing about what it depends on."""

    status: Literal["ok"] = "ok"


class Ready(BaseModel):
    """The service can do its work."""

    database: Literal["ok"] = "ok"
    store: Literal["ok"] = "ok"


class Version(BaseModel):
    """The release, and the newest file format that it reads."""

    version: str
    format: int


@router.get("/healthz")
def healthz() -> Health:
    """The process answers requests. Restart it where this fails."""
    return Health()


@router.get("/readyz")
async def readyz(request: Request) -> Ready:
    """Database and store answer; asked at most every five seconds. Send requests elsewhere where this fails."""
    readiness: Readiness = request.app.state.readiness
    found = await readiness.check()
    failed = {part: what for part, what in found.items() if what != OK}
    if failed:
        said = ", ".join(f"{part} {what}" for part, what in failed.items())
        raise Unreachable(f"not ready: {said}", hint="the service's log says why", **failed)
    return Ready()


@router.get("/version")
def show_release() -> Version:
    """The service's release."""
    return Version(version=version("gradassay"), format=FORMAT)


@router.get("/metrics", response_class=Response, responses=EXPOSITION)
def show_metrics(caller: Reader) -> Response:
    """What this process counted, for Prometheus. Counts are over all projects: a token of project "*" reads them."""
    if not caller.sees(EVERY_PROJECT):
        raise Forbidden(
            f"metrics are over all projects; {caller.who} sees {caller.project} only",
            hint='use a token of project "*"; it needs no scope',
        )
    return Response(metrics.exposition(), media_type=metrics.MEDIA_TYPE)
