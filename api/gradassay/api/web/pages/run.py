"""One run: its verdict, why this golden, and every part of the assay."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Form, Path, Query, Request
from fastapi.responses import Response

from gradassay.api.auth.caller import Caller
from gradassay.api.auth.guard import Reader, Reviewer
from gradassay.api.judging.judged import Judged
from gradassay.api.judging.law import law_id, verdict_law
from gradassay.api.runs.run import Run
from gradassay.api.service import ServiceDependency
from gradassay.api.web.address import link
from gradassay.api.web.decision import DecisionForm
from gradassay.api.web.page import WAIT_S, Crumb, go, page
from gradassay.api.web.views.assay import AssayPage
from gradassay.api.web.views.commands import diff_command
from gradassay.api.web.views.parameters import Wanted
from gradassay.api.web.words import base_url, short
from gradassay.goldens.errors import GradassayError, NoGolden

router = APIRouter()


@router.get("/runs/{run}")
def show_run(
    request: Request,
    service: ServiceDependency,
    caller: Reader,
    run: str,
    against: str = "approved",
    q: str = "",
    family: str = "",
    verdict: str = "",
    sort: str = "",
    number: Annotated[int, Query(alias="page", ge=1)] = 1,
) -> Response:
    """The run against the golden that `against` (a channel, or v3) chooses for it."""
    found = service.runs.find(run, caller)
    try:
        question = service.assays.question(found, against)
    except NoGolden as error:
        return _show(request, caller, found, "run_without_golden.html", against=against, error=error)
    judged = service.assays.judge(question, wait_s=WAIT_S)
    if judged is None:
        return _show(request, caller, found, "run_pending.html", against=against, question=question)
    wanted = Wanted(search=q, family=family, verdict=verdict, sort=sort, page=number)
    return _show(
        request,
        caller,
        found,
        "run.html",
        against=against,
        judged=judged,
        assay=AssayPage(judged.document, wanted),
        laws=_laws(judged),
        accepted=service.reviews.acceptance(judged, found).findings,
        reviews=service.reviews.of_run(found),
        others=[one for one in service.assays.known(found) if one.id != judged.id and one.golden],
        command=diff_command(f"golden:{judged.golden}@v{judged.version}", f"run:{found.id}", base_url(request)),
        history=lambda name: link("/history", problem=found.problem, dtype=found.dtype, parameter=name),
    )


@router.post("/runs/{run}/decisions")
def decide(
    service: ServiceDependency,
    caller: Reviewer,
    run: str,
    law: Annotated[str, Form()],
    assay: Annotated[str, Form()],
    decision: Annotated[str, Form()],
    reason: Annotated[str, Form()] = "",
    expires: Annotated[str, Form()] = "",
    against: Annotated[str, Form()] = "approved",
) -> Response:
    """Accepts one divergence of the run until a day, or rejects it."""
    found = service.runs.find(run, caller)
    back = link(f"/runs/{found.id}", against=against if against != "approved" else "")
    form = DecisionForm(decision=decision, reason=reason, expires=expires)
    try:
        form.decide(service.reviews, found, law=law, assay=assay, caller=caller)
    except GradassayError as error:
        return go(back, str(error), kind="failed")
    return go(back, f"{form.word}. The reason stays with the run.")


@router.post("/runs/{run}/decisions/{number}/withdrawal")
def withdraw(
    service: ServiceDependency, caller: Reviewer, run: str, number: Annotated[int, Path(ge=1, lt=2**31)]
) -> Response:
    """Takes a decision about the run back."""
    found = service.runs.find(run, caller)
    back = link(f"/runs/{found.id}")
    try:
        review = service.reviews.withdraw(number, caller.who, run=found)
    except GradassayError as error:
        return go(back, str(error), kind="failed")
    return go(back, f"No longer {review.decision}: {review.reason}")


def _laws(judged: Judged) -> tuple[str, ...]:
    """What a decision about each finding names; where there is none and it still does not agree, the verdict itself."""
    findings = judged.document["findings"]
    if not findings and judged.verdict != "agree":
        return (verdict_law(judged.verdict),)
    return tuple(
        law_id(finding["families"], finding["law"]["pattern"], finding["law"]["formula"]) for finding in findings
    )


def _show(request: Request, caller: Caller, run: Run, template: str, *, against: str, **shown: Any) -> Response:
    return page(
        request,
        template,
        title=f"{run.strategy} in {run.layout}",
        caller=caller,
        crumbs=(Crumb(text="Runs", url="/runs"), Crumb(text=short(run.id))),
        run=run,
        against=against,
        url=base_url(request),
        **shown,
    )
