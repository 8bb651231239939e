"""Runs: records that were posted, and their assays."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Header, Query, Request, Response, status
from fastapi.concurrency import run_in_threadpool

from gradassay.api.auth.caller import EVERY_PROJECT
from gradassay.api.auth.guard import Poster, Reader
from gradassay.api.judging.known import KnownAssay
from gradassay.api.operations.metrics import count_upload
from gradassay.api.paging import LARGEST, from_cursor, to_cursor
from gradassay.api.routes.assays import NOT_MODIFIED, PENDING, WAIT, answer
from gradassay.api.runs.known import KnownRun, RunAssay, RunDetails, RunPage
from gradassay.api.runs.run import DEFAULT_PROJECT
from gradassay.api.runs.upload import received
from gradassay.api.service import ServiceDependency
from gradassay.goldens.errors import GradassayError

FILE: dict[str, Any] = {
    "required": True,
    "content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}},
}
DIGEST: dict[str, Any] = {
    "name": "Content-Digest",
    "in": "header",
    "required": False,
    "description": "sha-256=:BASE64: of the body (RFC 9530); checked where it is sent",
    "schema": {"type": "string"},
}
FILTER = Query(max_length=128)

router = APIRouter(prefix="/api/v1/runs", tags=["runs"])


@router.post(
    "",
    status_code=status.HTTP_201_CREATED,
    responses={status.HTTP_200_OK: {"model": KnownRun, "description": "this content was there already"}},
    openapi_extra={"requestBody": FILE, "parameters": [DIGEST]},
)
async def post_run(
    request: Request,
    response: Response,
    caller: Poster,
    service: ServiceDependency,
) -> KnownRun:
    """Keeps the record file in the body, once it has been found valid. The same content twice is one run."""
    project = DEFAULT_PROJECT if caller.project == EVERY_PROJECT else caller.project
    try:
        async with received(request, limit=service.settings.max_upload_bytes) as upload:
            run, new = await run_in_threadpool(
                service.runs.post, upload.path, upload.digest, who=caller.who, project=project
            )
    except GradassayError as error:
        count_upload(error.code)
        raise
    count_upload("created" if new else "known", upload.size)
    service.assays.nudge()
    response.status_code = status.HTTP_201_CREATED if new else status.HTTP_200_OK
    response.headers["Location"] = f"{router.prefix}/{run.id}"
    return KnownRun.model_validate(run)


@router.get("")
def list_runs(
    caller: Reader,
    service: ServiceDependency,
    problem: Annotated[str | None, FILTER] = None,
    dtype: Annotated[str | None, FILTER] = None,
    strategy: Annotated[str | None, FILTER] = None,
    framework: Annotated[str | None, FILTER] = None,
    cursor: Annotated[str | None, Query(max_length=64, description="`next` of the page before")] = None,
    limit: Annotated[int, Query(ge=1, le=LARGEST)] = 50,
) -> RunPage:
    """Runs of the caller's project, newest first."""
    page = service.runs.page(
        caller.project,
        problem=problem,
        dtype=dtype,
        strategy=strategy,
        framework=framework,
        before=from_cursor(cursor),
        limit=limit,
    )
    return RunPage(items=[KnownRun.model_validate(run) for run in page.items], next=to_cursor(page.next))


@router.get("/{run}")
def show_run(caller: Reader, service: ServiceDependency, run: str) -> RunDetails:
    """One run, by its id, its digest, or the beginning of one."""
    found = service.runs.find(run, caller)
    assays = [RunAssay.model_validate(judged) for judged in service.assays.known(found)]
    return RunDetails(**KnownRun.model_validate(found).model_dump(), header=found.header, assays=assays)


@router.get(
    "/{run}/assay",
    response_model=KnownAssay,
    responses={status.HTTP_202_ACCEPTED: PENDING, status.HTTP_304_NOT_MODIFIED: NOT_MODIFIED},
)
async def show_assay_of_run(
    caller: Reader,
    service: ServiceDependency,
    run: str,
    against: Annotated[str, Query(max_length=64, description="a channel, or a version as in v3")] = "approved",
    wait: Annotated[float, WAIT] = 0,
    if_none_match: Annotated[str, Header()] = "",
) -> Response:
    """The assay of a run against the golden of its problem and dtype profile, computed if nobody has asked before.

    404 `no-golden` where there is none to compare with, which is never a pass; `facts` say what was passed over and why.
    """
    found = await run_in_threadpool(service.runs.find, run, caller)
    question = await run_in_threadpool(service.assays.question, found, against)
    return await answer(service, question, wait_s=wait, if_none_match=if_none_match)
