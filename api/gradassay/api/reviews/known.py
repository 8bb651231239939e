"""Reviews as HTTP shows them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Self

from pydantic import BaseModel, Field

from gradassay.api.reviews.review import Decision, Review, Standing


class KnownReview(BaseModel):
    """What a person decided about a divergence."""

    number: int
    run: str = Field(description="where it was seen")
    framework: str
    law: str = Field(description="id of the law; the same in every run")
    formula: str
    golden: str | None
    parameters: list[str]
    decision: Decision
    standing: Standing = Field(description="whether it still counts")
    reason: str
    who: str
    at: datetime
    expires_at: datetime | None
    withdrawn_at: datetime | None

    @classmethod
    def of(cls, review: Review) -> Self:
        """What HTTP shows of it now."""
        shown = {name: getattr(review, name) for name in cls.model_fields if name != "standing"}
        return cls.model_validate({**shown, "standing": review.standing(datetime.now(UTC))})
