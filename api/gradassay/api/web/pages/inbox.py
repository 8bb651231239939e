"""The inbox: divergences that nobody has decided about, grouped by law."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Form, Request
from fastapi.responses import Response

from gradassay.api.auth.caller import Caller
from gradassay.api.auth.guard import Reader, Reviewer
from gradassay.api.reviews.inbox import Group
from gradassay.api.service import Service, ServiceDependency
from gradassay.api.web.decision import DecisionForm
from gradassay.api.web.page import go, page
from gradassay.api.web.queries.named import named_runs
from gradassay.api.web.views.commands import post_commands
from gradassay.api.web.views.groups import LISTED_RUNS, Narrowing, choices, sentence
from gradassay.api.web.words import base_url, count
from gradassay.goldens.errors import GradassayError, NotFound

router = APIRouter()

_Key = tuple[str, str, str]


@router.get("/")
def show_inbox(
    request: Request,
    service: ServiceDependency,
    caller: Reader,
    problem: str = "",
    dtype: str = "",
    framework: str = "",
) -> Response:
    """The groups that fit, the oldest first."""
    narrowing = Narrowing(problem=problem, dtype=dtype, framework=framework)
    groups = service.reviews.inbox(caller.project)
    runs = named_runs(service.database, [run for group in groups for run in group.runs])
    fitting = [group for group in groups if any(run in runs and narrowing.fits(runs[run]) for run in group.runs)]
    return page(
        request,
        "inbox.html",
        title="Inbox",
        caller=caller,
        groups=sorted(fitting, key=lambda group: group.oldest),
        runs=runs,
        sentence=sentence,
        listed_runs=LISTED_RUNS,
        narrowing=narrowing,
        offered=choices(runs),
        total=len(groups),
        has_runs=bool(runs) or bool(service.runs.page(caller.project, limit=1).items),
        commands=post_commands(base_url(request)),
    )


@router.post("/inbox/decisions")
def decide(
    request: Request,
    service: ServiceDependency,
    caller: Reviewer,
    law: Annotated[str, Form()],
    golden: Annotated[str, Form()],
    framework: Annotated[str, Form()],
    decision: Annotated[str, Form()],
    reason: Annotated[str, Form()] = "",
    expires: Annotated[str, Form()] = "",
) -> Response:
    """Decides about every run of one group."""
    back = f"/?{request.url.query}" if request.url.query else "/"
    form = DecisionForm(decision=decision, reason=reason, expires=expires)
    key = law, golden, framework
    try:
        group = _group(service, caller, key)
        if group is None:
            raise NotFound("this divergence is no longer in the inbox", hint="somebody else may have decided about it")
        left = group.runs
        while left:
            form.decide(service.reviews, service.runs.find(left[0], caller), law=law, assay=None, caller=caller)
            left = _left(service, caller, key) if form.accepts else left[1:]
    except GradassayError as error:
        return go(back, str(error), kind="failed")
    return go(back, f"{form.word} in {count(len(group.runs), 'run')}: {sentence(group)}.")


def _group(service: Service, caller: Caller, key: _Key) -> Group | None:
    for group in service.reviews.inbox(caller.project):
        if (group.law, group.golden, group.framework) == key:
            return group
    return None


def _left(service: Service, caller: Caller, key: _Key) -> tuple[str, ...]:
    """Runs of the group that what was accepted so far does not cover, as they have further parameters."""
    group = _group(service, caller, key)
    return group.runs if group else ()
