"""Runs: records that were posted, and their assays."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from fastapi import APIRouter, Header, Query, Request, Response, status
from fastapi.concurrency import run_in_threadpool
from pydantic import BaseModel

from gradassay.api.assays import Assays
from gradassay.api.problem import MEDIA_TYPE
from gradassay.api.settings import ServiceSettings
from gradassay.api.upload import Upload, received
from gradassay.goldens.errors import GradassayError, NotFound
from gradassay.goldens.store.protocol import GoldenStore, StoredRecord

PROBLEM: dict[str, Any] = {"description": "what went wrong (RFC 9457)", "content": {MEDIA_TYPE: {}}}
FILE = {"required": True, "content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}}}

router = APIRouter(prefix="/api/v1/runs", tags=["runs"], responses={"4XX": PROBLEM, "5XX": PROBLEM})


class Run(BaseModel):
    """A record that the store holds."""

    id: str
    digest: str
    problem: str
    strategy: str
    layout: str
    dtype: str
    created: str


@router.post(
    "",
    status_code=status.HTTP_201_CREATED,
    responses={status.HTTP_200_OK: {"model": Run, "description": "this content was there already"}},
    openapi_extra={"requestBody": FILE},
)
async def post_run(request: Request, response: Response) -> Run:
    """Keeps the record file in the body, once it has been found valid.

    The header Content-Digest (RFC 9530, sha-256) is checked where it is sent. The same content twice is one run.
    """
    settings: ServiceSettings = request.app.state.settings
    async with received(request, limit=settings.max_upload_bytes) as upload:
        kept, created = await run_in_threadpool(_keep, request.app.state.store, upload)
    response.status_code = status.HTTP_201_CREATED if created else status.HTTP_200_OK
    response.headers["Location"] = f"{router.prefix}/{kept.id}"
    return Run.model_validate(kept, from_attributes=True)


def _keep(store: GoldenStore, upload: Upload) -> tuple[StoredRecord, bool]:
    try:
        return store.find_record(upload.digest), False
    except NotFound:
        pass
    try:
        return store.put_record(upload.path), True
    except GradassayError as error:
        raise _about_the_upload(error, upload.path) from error


def _about_the_upload(error: GradassayError, path: Path) -> GradassayError:
    """The error with the temporary file called what it is to the client."""
    error.message = error.message.replace(str(path), "upload")
    error.facts = {name: value for name, value in error.facts.items() if value != str(path)}
    return error


@router.get("/{run}/assay", responses={status.HTTP_304_NOT_MODIFIED: {"description": "the answer is still the same"}})
def get_assay(
    request: Request,
    run: str,
    against: Annotated[str, Query(description="a channel, or a version as in v3")] = "approved",
    if_none_match: Annotated[str, Header()] = "",
) -> Response:
    """The assay of a run against the golden of its problem and dtype, as `gradassay diff --format json` prints it."""
    assays: Assays = request.app.state.assays
    question = assays.question(run, against)
    headers = {"ETag": question.etag, "Cache-Control": "no-cache"}
    known = {tag.strip().removeprefix("W/") for tag in if_none_match.split(",")}
    if known & {question.etag, "*"}:
        return Response(status_code=status.HTTP_304_NOT_MODIFIED, headers=headers)
    return Response(assays.answer(question), media_type="application/json", headers=headers)
