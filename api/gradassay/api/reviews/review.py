"""One decision of a person about a divergence."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from gradassay.api.database.tables import ReviewRow


class Decision(StrEnum):
    """What a person says of a divergence. accepted: known, until a date. rejected: to be mended."""

    ACCEPTED = "accepted"
    REJECTED = "rejected"


class Standing(StrEnum):
    """Whether the decision still counts; one that does not is shown all the same."""

    ACTIVE = "active"
    EXPIRED = "expired"
    WITHDRAWN = "withdrawn"


@dataclass(frozen=True, slots=True, kw_only=True)
class Review:
    """What was decided, about which law, for which parameters, why, by whom and until when.

    run: where it was seen. framework: of that run; what is accepted of one framework is accepted of no other. golden:
    against which it was seen, None for a law that no golden showed.
    """

    number: int
    project: str
    run: str
    framework: str
    law: str
    formula: str
    golden: str | None
    parameters: tuple[str, ...]
    decision: Decision
    reason: str
    who: str
    at: datetime
    expires_at: datetime | None
    withdrawn_at: datetime | None

    @classmethod
    def from_row(cls, row: ReviewRow, framework: str) -> Review:
        """The review of a row of the database, and the framework of its run."""
        taken = {
            name: getattr(row, name) for name in cls.__slots__ if name not in ("framework", "decision", "parameters")
        }
        return cls(
            **taken, framework=framework, decision=Decision(row.decision), parameters=tuple(map(str, row.parameters))
        )

    def standing(self, now: datetime) -> Standing:
        """Whether the decision counts at this moment."""
        if self.withdrawn_at is not None:
            return Standing.WITHDRAWN
        expired = self.expires_at is not None and self.expires_at <= now
        return Standing.EXPIRED if expired else Standing.ACTIVE
