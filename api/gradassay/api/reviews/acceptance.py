"""Which findings of an assay are accepted, by which reviews: a pure function."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from gradassay.api.judging.law import law_id
from gradassay.api.reviews.review import Decision, Review, Standing


@dataclass(frozen=True, slots=True, kw_only=True)
class AcceptedFinding:
    """One finding, and the reviews that accept it between them. uncovered: its parameters that none of them names."""

    position: int
    law: str
    formula: str
    accepted: bool
    reviews: tuple[Review, ...]
    uncovered: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Acceptance:
    """What is accepted of an assay. every_finding: the run diverges, and nothing of that is news to anybody."""

    every_finding: bool
    findings: tuple[AcceptedFinding, ...]


def acceptance(
    document: Mapping[str, Any], reviews: Sequence[Review], *, golden: str | None, framework: str, now: datetime
) -> Acceptance:
    """What the reviews accept of the assay, which is the document of `gradassay diff --format json`.

    A review counts where it is accepted and active, of the same law, golden and framework; a finding is accepted where
    reviews name all of its parameters between them.
    """
    findings = []
    for position, finding in enumerate(document["findings"]):
        law = law_id(finding["families"], finding["law"]["pattern"], finding["law"]["formula"])
        counting = tuple(
            review
            for review in reviews
            if review.decision is Decision.ACCEPTED
            and review.standing(now) is Standing.ACTIVE
            and (review.law, review.golden, review.framework) == (law, golden, framework)
        )
        named = {name for review in counting for name in review.parameters}
        uncovered = tuple(name for name in finding["parameters"] if name not in named)
        findings.append(
            AcceptedFinding(
                position=position,
                law=law,
                formula=finding["law"]["formula"],
                accepted=bool(counting) and not uncovered,
                reviews=counting,
                uncovered=uncovered if counting else tuple(finding["parameters"]),
            )
        )
    diverges = document["verdict"] == "diverge" and bool(findings)
    return Acceptance(
        every_finding=diverges and all(finding.accepted for finding in findings), findings=tuple(findings)
    )
