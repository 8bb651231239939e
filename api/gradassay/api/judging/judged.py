"""Questions that assays answer, and their answers."""

from __future__ import annotations

import hashlib
import json
import zlib
from dataclasses import dataclass, replace
from datetime import datetime
from importlib.metadata import version
from typing import Any

from gradassay.api.database.tables import AssayRow
from gradassay.api.judging.choice import Choice
from gradassay.api.runs.run import Run

_ID_DIGITS = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """Which run is compared with which version of a golden, or with which other run.

    choice: how that version was found. golden_digest: of its file.
    """

    run: Run
    golden: str | None = None
    version: int | None = None
    golden_digest: str = ""
    other: Run | None = None
    choice: Choice | None = None

    @property
    def id(self) -> str:
        """Names the answer: contents, names, project and release decide it, nothing else does."""
        other = (self.other.id, self.other.digest) if self.other else ("", "")
        golden = (self.golden or "", str(self.version or ""), self.golden_digest)
        parts = (self.run.project, self.run.id, self.run.digest, *golden, *other, version("gradassay"))
        return hashlib.sha256("|".join(parts).encode()).hexdigest()[:_ID_DIGITS]

    @property
    def etag(self) -> str:
        """The answer's entity tag."""
        return f'"{self.id}"'


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """An assay that was computed. run is side b; side a is a version of a golden, or other_run.

    document: what `gradassay diff --format json` prints. choice: how the golden was found, where that was asked.
    """

    id: str
    project: str
    run: str
    golden: str | None
    version: int | None
    other_run: str | None
    verdict: str
    sentence: str
    document: dict[str, Any]
    computed_at: datetime
    choice: Choice | None = None

    @classmethod
    def from_row(cls, row: AssayRow) -> Judged:
        """The assay of a row of the database."""
        return cls(
            id=row.id,
            project=row.project,
            run=row.run,
            golden=row.golden,
            version=row.version,
            other_run=row.other_run,
            verdict=row.verdict,
            sentence=row.sentence,
            document=json.loads(zlib.decompress(row.document)),
            computed_at=row.computed_at,
        )

    def chosen(self, choice: Choice | None) -> Judged:
        """The same with how its golden was found."""
        return replace(self, choice=choice)
