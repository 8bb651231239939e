"""Assays as HTTP shows them."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any, Self

from pydantic import BaseModel, ConfigDict, Field

from gradassay.api.judging.judged import Judged
from gradassay.api.reviews.acceptance import Acceptance
from gradassay.api.reviews.known import KnownReview


class KnownChoice(BaseModel):
    """Which version of a golden a run was compared with, why, and what was passed over."""

    model_config = ConfigDict(from_attributes=True)

    golden: str
    version: int | None
    channel: str | None = Field(description="by which it was found; null where the version was asked for")
    reasons: list[str]
    skipped: list[str]


class KnownAcceptedFinding(BaseModel):
    """One finding, by its position, and the reviews that accept it between them."""

    model_config = ConfigDict(from_attributes=True)

    position: int
    law: str = Field(description="id of the law, for reviews of it")
    formula: str
    accepted: bool
    uncovered: int = Field(description="how many of its parameters no review accepts")
    reviews: list[KnownReview]


class KnownAcceptance(BaseModel):
    """What people accepted of an assay, for a while; the verdict stays what it is."""

    every_finding: bool = Field(description="the run diverges, and all of that is accepted now")
    findings: list[KnownAcceptedFinding]

    @classmethod
    def of(cls, found: Acceptance) -> Self:
        """What HTTP shows of it."""
        return cls(
            every_finding=found.every_finding,
            findings=[
                KnownAcceptedFinding(
                    position=one.position,
                    law=one.law,
                    formula=one.formula,
                    accepted=one.accepted,
                    uncovered=len(one.uncovered),
                    reviews=[KnownReview.of(review) for review in one.reviews],
                )
                for one in found.findings
            ],
        )


class KnownAssay(BaseModel):
    """The object that `gradassay diff --format json` prints, and beside it what the service knows of it."""

    model_config = ConfigDict(extra="allow")

    id: str
    run: str = Field(description="side b")
    other_run: str | None = Field(description="side a, where that is a run")
    computed_at: datetime
    choice: KnownChoice | None = Field(description="how the golden was found, where the service chose it")
    accepted: KnownAcceptance
    format: int
    verdict: str
    exit: int
    sentence: str

    @classmethod
    def text(cls, judged: Judged, found: Acceptance) -> str:
        """The JSON text, the document's own keys as they were computed."""
        choice = judged.choice
        beside = {
            "id": judged.id,
            "run": judged.run,
            "other_run": judged.other_run,
            "computed_at": judged.computed_at.isoformat().replace("+00:00", "Z"),
            "choice": KnownChoice.model_validate(choice).model_dump(mode="json") if choice else None,
            "accepted": KnownAcceptance.of(found).model_dump(mode="json"),
        }
        return json.dumps({**judged.document, **beside}, ensure_ascii=False, allow_nan=False)


class Pending(BaseModel):
    """The assay is being computed; ask again."""

    id: str
    run: str
    detail: str


class KnownParameter(BaseModel):
    """One parameter of an assay."""

    name: str
    family: str
    verdict: str
    ratio: float | None
    residual: float | None
    tolerance: float | None
    note: str = ""


class ParameterPage(BaseModel):
    """Some parameters of an assay. total: how many fit the search."""

    items: list[KnownParameter]
    total: int
    next: str | None = Field(description="cursor of the next page, null at the end")

    @classmethod
    def of(cls, items: list[dict[str, Any]], total: int, next: str | None) -> Self:
        """What HTTP shows of it."""
        return cls(items=[KnownParameter.model_validate(item) for item in items], total=total, next=next)
