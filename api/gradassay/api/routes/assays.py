"""Assays: of any two runs, or of a run and a golden; their parameters and reports."""

from __future__ import annotations

import hashlib
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Header, Query, Response, status
from fastapi.concurrency import run_in_threadpool
from pydantic import BaseModel, Field

from gradassay.api.auth.guard import Reader
from gradassay.api.judging.judged import Judged, Question
from gradassay.api.judging.known import KnownAssay, ParameterPage, Pending
from gradassay.api.judging.parameters import Order, in_order, searched
from gradassay.api.paging import LARGEST, from_cursor, to_cursor
from gradassay.api.runs.run import Run
from gradassay.api.service import Service, ServiceDependency
from gradassay.goldens.reference import GoldenReference
from gradassay.goldens.report import Format, render
from gradassay.goldens.report.json import from_json

LONGEST_WAIT_S = 60
RETRY_S = 1
WAIT = Query(ge=0, description=f"seconds to wait for it, at most {LONGEST_WAIT_S} of which count; then 202")
PENDING: dict[str, Any] = {
    "model": Pending,
    "description": "it is being computed; ask again",
    "headers": {"Retry-After": {"schema": {"type": "integer"}, "description": "seconds"}},
}
NOT_MODIFIED: dict[str, Any] = {"description": "the answer is the one that the client has"}
ReportKind = Literal["json", "md", "html", "xml"]
REPORTS: dict[ReportKind, tuple[Format, str]] = {
    "json": (Format.JSON, "application/json"),
    "md": (Format.MARKDOWN, "text/markdown; charset=utf-8"),
    "html": (Format.HTML, "text/html; charset=utf-8"),
    "xml": (Format.JUNIT, "application/xml"),
}
REPORT: dict[int | str, dict[str, Any]] = {
    status.HTTP_200_OK: {
        "description": "the report",
        "content": {
            kind.partition(";")[0]: {"schema": {"type": "object" if format is Format.JSON else "string"}}
            for format, kind in REPORTS.values()
        },
    }
}

router = APIRouter(prefix="/api/v1/assays", tags=["assays"])


class Pair(BaseModel):
    """What is to be compared: run b with run a, or with a golden."""

    a: str = Field(
        min_length=1,
        max_length=300,
        description="a run's id or digest, or golden:NAME, golden:NAME@approved, golden:NAME@v3",
    )
    b: str = Field(min_length=1, max_length=300, description="a run's id or digest")


@router.post("", response_model=KnownAssay, responses={status.HTTP_202_ACCEPTED: PENDING})
async def compare(
    caller: Reader, service: ServiceDependency, pair: Pair, wait: Annotated[float, WAIT] = 30
) -> Response:
    """The assay of any two: computed once, and found again by its id."""

    def question() -> Question:
        b = service.runs.find(pair.b, caller)
        if pair.a.startswith("golden:"):
            return service.assays.literally(b, GoldenReference.parse(pair.a))
        return service.assays.question_between(service.runs.find(pair.a, caller), b)

    return await answer(service, await run_in_threadpool(question), wait_s=wait)


@router.get("/{assay}", response_model=KnownAssay, responses={status.HTTP_304_NOT_MODIFIED: NOT_MODIFIED})
def show_assay(
    caller: Reader, service: ServiceDependency, assay: str, if_none_match: Annotated[str, Header()] = ""
) -> Response:
    """An assay that has been computed."""
    judged = service.assays.find(assay, caller)
    return _answered(service, judged, _run(service, judged), if_none_match)


@router.get("/{assay}/parameters")
def list_parameters(
    caller: Reader,
    service: ServiceDependency,
    assay: str,
    search: Annotated[str, Query(max_length=200, description="part of a name, in any case")] = "",
    family: Annotated[str, Query(max_length=128)] = "",
    verdict: Annotated[str, Query(max_length=32)] = "",
    sort: Order = Order.MODEL,
    descending: bool = False,
    cursor: Annotated[str | None, Query(max_length=64, description="`next` of the page before")] = None,
    limit: Annotated[int, Query(ge=1, le=LARGEST)] = 100,
) -> ParameterPage:
    """The parameters of an assay, a page at a time. ratio sorts by distance from 1, so that 1/2 and 2 are alike."""
    judged = service.assays.find(assay, caller)
    found = in_order(
        searched(judged.document["parameters"], text=search, family=family, verdict=verdict),
        sort,
        descending=descending,
    )
    first = from_cursor(cursor) or 0
    last = first + limit
    return ParameterPage.of(
        [dict(item) for item in found[first:last]], len(found), to_cursor(last) if last < len(found) else None
    )


@router.get("/{assay}/report.{kind}", response_class=Response, responses=REPORT)
def show_report(caller: Reader, service: ServiceDependency, assay: str, kind: ReportKind) -> Response:
    """The assay as `gradassay diff --format` writes it: json, md, html or xml (JUnit)."""
    judged = service.assays.find(assay, caller)
    format, media_type = REPORTS[kind]
    return Response(render(from_json(judged.document), format), media_type=media_type)


async def answer(service: Service, question: Question, *, wait_s: float, if_none_match: str = "") -> Response:
    """The response with the answer to a question, or 202 where it takes longer than `wait_s` seconds."""
    judged = await service.assays.judge_soon(question, wait_s=min(wait_s, LONGEST_WAIT_S))
    if judged is None:
        pending = Pending(id=question.id, run=question.run.id, detail="the assay is being computed; ask again")
        return Response(
            pending.model_dump_json(),
            status_code=status.HTTP_202_ACCEPTED,
            media_type="application/json",
            headers={"Retry-After": str(RETRY_S), "Cache-Control": "no-store"},
        )
    return await run_in_threadpool(_answered, service, judged, question.run, if_none_match)


def _answered(service: Service, judged: Judged, run: Run, if_none_match: str) -> Response:
    text = KnownAssay.text(judged, service.reviews.acceptance(judged, run))
    etag = f'"{hashlib.sha256(text.encode()).hexdigest()[:32]}"'
    headers = {"ETag": etag, "Cache-Control": "private, no-cache"}
    if {tag.strip().removeprefix("W/") for tag in if_none_match.split(",")} & {etag, "*"}:
        return Response(status_code=status.HTTP_304_NOT_MODIFIED, headers=headers)
    return Response(text, media_type="application/json", headers=headers)


def _run(service: Service, judged: Judged) -> Run:
    return service.runs.of_id(judged.run)
