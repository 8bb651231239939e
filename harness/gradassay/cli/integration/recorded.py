"""One cell after it ran."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from gradassay.goldens.errors import GradassayError

if TYPE_CHECKING:
    from gradassay.harness.cell import Cell
    from gradassay.harness.launch import Outcome


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """A cell and its record, or the error because of which there is none. line: of the matrix file."""

    cell: Cell
    line: int | None
    path: Path | None = None
    error: GradassayError | None = None

    @classmethod
    def of(cls, outcome: Outcome, line: int | None) -> Recorded:
        """What came of running the cell."""
        try:
            return cls(cell=outcome.cell, line=line, path=outcome.require())
        except GradassayError as error:
            return cls(cell=outcome.cell, line=line, error=error)
