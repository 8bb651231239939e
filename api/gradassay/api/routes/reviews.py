"""Reviews: divergences of runs that people accept for a while, or reject."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from fastapi import APIRouter, Path, status
from pydantic import BaseModel, Field

from gradassay.api.auth.guard import Reader, Reviewer
from gradassay.api.reviews.known import KnownReview
from gradassay.api.reviews.review import Decision
from gradassay.api.service import ServiceDependency
from gradassay.goldens.errors import UsageError

MOST_PARAMETERS = 100_000

router = APIRouter(prefix="/api/v1/runs/{run}/reviews", tags=["reviews"])


class NewReview(BaseModel):
    """A decision about one law of a run."""

    law: str = Field(min_length=1, max_length=2000, description="of one of the run's findings, by id or formula")
    decision: Decision = Decision.ACCEPTED
    reason: str = Field(min_length=1, max_length=4000)
    expires_at: datetime | None = Field(
        default=None, description="until when it is accepted, a year ahead at most; needed to accept, else left out"
    )
    parameters: list[str] = Field(
        default=[],
        max_length=MOST_PARAMETERS,
        description="those that it is about; by default all that the law was found for",
    )
    assay: str | None = Field(
        default=None, max_length=64, description="where it was seen; by default the newest with that law"
    )


@router.get("")
def list_reviews(caller: Reader, service: ServiceDependency, run: str) -> list[KnownReview]:
    """All decisions that were made about the run, newest first; the expired and withdrawn ones too."""
    return [KnownReview.of(review) for review in service.reviews.of_run(service.runs.find(run, caller))]


@router.post("", status_code=status.HTTP_201_CREATED)
def post_review(caller: Reviewer, service: ServiceDependency, run: str, review: NewReview) -> KnownReview:
    """Accepts a divergence of the run until a date, or rejects it. The verdict of the run stays what it is."""
    found = service.runs.find(run, caller)
    if review.decision is Decision.REJECTED:
        if review.expires_at is not None:
            raise UsageError("a rejection does not expire", hint="leave expires_at out")
        decided = service.reviews.reject(
            found,
            law=review.law,
            parameters=review.parameters,
            reason=review.reason,
            who=caller.who,
            assay=review.assay,
        )
        return KnownReview.of(decided)
    if review.expires_at is None:
        raise UsageError(
            "an accepted divergence must expire", hint="send expires_at, a date by which it should be mended"
        )
    decided = service.reviews.accept(
        found,
        law=review.law,
        parameters=review.parameters,
        reason=review.reason,
        expires_at=review.expires_at,
        who=caller.who,
        assay=review.assay,
    )
    return KnownReview.of(decided)


@router.delete("/{number}")
def withdraw_review(
    caller: Reviewer, service: ServiceDependency, run: str, number: Annotated[int, Path(ge=1, lt=2**31)]
) -> KnownReview:
    """Takes a decision back; it stays in the ledger and is shown as withdrawn."""
    return KnownReview.of(service.reviews.withdraw(number, caller.who, run=service.runs.find(run, caller)))
