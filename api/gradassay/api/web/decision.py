"""What a form says about a divergence, checked before anything is decided."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime, time

from gradassay.api.auth.caller import Caller
from gradassay.api.reviews.reviews import Reviews
from gradassay.api.runs.run import Run
from gradassay.goldens.errors import UsageError

WORDS = {"accept": "Accepted", "reject": "Rejected"}


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionForm:
    """What was filled in. decision: accept or reject. expires: the last day that an acceptance counts, as in 2031-12-31."""

    decision: str
    reason: str
    expires: str

    @property
    def word(self) -> str:
        """What has been done, to begin a sentence with."""
        return WORDS[self.decision]

    @property
    def accepts(self) -> bool:
        """Whether the divergence is accepted; raises UsageError for a decision that is neither."""
        if self.decision not in WORDS:
            raise UsageError(f"decision {self.decision[:40]!r} is not known", hint=f"choose {' or '.join(WORDS)}")
        return self.decision == "accept"

    def decide(self, reviews: Reviews, run: Run, *, law: str, assay: str | None, caller: Caller) -> None:
        """Writes the decision down for all parameters of one law of the run; raises UsageError where a part is missing."""
        if self.accepts:
            end = _end_of(self.expires)
            reviews.accept(run, law=law, reason=self.reason, expires_at=end, who=caller.who, assay=assay)
        else:
            reviews.reject(run, law=law, reason=self.reason, who=caller.who, assay=assay)


def _end_of(day: str) -> datetime:
    try:
        return datetime.combine(date.fromisoformat(day), time.max, tzinfo=UTC)
    except ValueError as error:
        raise UsageError(
            f"accepting needs the last day that it counts, found {day[:40]!r}", hint="write it as in 2031-12-31"
        ) from error
