"""The files themselves: records that were posted, and versions of goldens."""

from __future__ import annotations

import base64
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

from fastapi import APIRouter, Header, Request, Response, status
from fastapi import Path as Segment
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import FileResponse

from gradassay.api.auth.guard import Reader
from gradassay.api.ledger.visible import visible_version
from gradassay.api.service import ServiceDependency
from gradassay.goldens.errors import InvalidFile, StoreError

BINARY = {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}}
ANSWERS: dict[int | str, dict[str, Any]] = {
    status.HTTP_200_OK: {"description": "the whole file", "content": BINARY},
    status.HTTP_206_PARTIAL_CONTENT: {"description": "the ranges that were asked for", "content": BINARY},
    status.HTTP_304_NOT_MODIFIED: {"description": "the file is the one that the client has"},
}

router = APIRouter(prefix="/api/v1", tags=["files"])


@router.get("/runs/{run}/record", response_class=Response, responses=ANSWERS)
async def get_record_file(
    request: Request, caller: Reader, service: ServiceDependency, run: str, if_none_match: Annotated[str, Header()] = ""
) -> Response:
    """The record file of a run, as it was posted."""
    found = await run_in_threadpool(service.runs.find, run, caller)
    return await _file(request, found.digest, lambda: service.runs.path(found), if_none_match)


@router.get("/goldens/{name:path}/versions/{version}/file", response_class=Response, responses=ANSWERS)
async def get_golden_file(
    request: Request,
    caller: Reader,
    service: ServiceDependency,
    name: str,
    version: Annotated[int, Segment(ge=1, lt=2**31)],
    if_none_match: Annotated[str, Header()] = "",
) -> Response:
    """The golden file of a version, as it was proposed."""
    found = await run_in_threadpool(visible_version, service.ledger, caller, name, version)
    return await _file(request, found.digest, lambda: service.store.golden_path(name, version), if_none_match)


async def _file(request: Request, digest: str, path: Callable[[], Path], known: str) -> Response:
    """The file with its digest as ETag; the digests of RFC 9530 say the same to those who want to check it."""
    etag = f'"{digest}"'
    headers = {"ETag": etag, "Cache-Control": "private, no-cache"}
    if {etag, "*"} & {tag.strip().removeprefix("W/") for tag in known.split(",")}:
        return Response(status_code=status.HTTP_304_NOT_MODIFIED, headers=headers)
    try:
        local = await run_in_threadpool(path)
    except InvalidFile as error:
        raise StoreError(f"{digest}: its stored file is damaged", hint=error.hint) from error
    content = f"sha-256=:{base64.b64encode(bytes.fromhex(digest.removeprefix('sha256:'))).decode()}:"
    headers["Repr-Digest"] = content
    if "range" not in request.headers:
        headers["Content-Digest"] = content
    return FileResponse(
        local, headers=headers, media_type="application/octet-stream", filename=f"{digest[7:19]}.safetensors"
    )
