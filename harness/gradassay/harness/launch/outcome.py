"""What a pool is asked to do, and what came of it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from gradassay.goldens.errors import CellFailed, UsageError
from gradassay.harness.cell import Cell

RUN_RANK = "gradassay.harness.worker:run_rank"
DEADLINE_S = 600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """One cell to run. out: the file that the ranks write together; it appears only where every rank succeeded.

    function: `module:function`, called on every rank as function(cell, out). deadline_s: from the fork of the ranks;
    then they are taken down.
    """

    cell: Cell
    out: Path
    function: str = RUN_RANK
    deadline_s: float = DEADLINE_S


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """Why a cell failed. rank: the first rank to fail, None where none was started.

    reason: one line. traceback: of that rank, or where every rank stood when the deadline passed. log: the last
    lines that the rank printed. refused: the rank said itself that the cell makes no sense, with this hint what to do.
    """

    rank: int | None
    reason: str
    traceback: str = ""
    log: str = ""
    refused: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What came of one cell: the file that it wrote, or its failure. seconds: from fork to the end of the last rank."""

    cell: Cell
    seconds: float
    path: Path | None = None
    failure: Failure | None = None

    def require(self) -> Path:
        """The file that was written; raises CellFailed with the failing rank's traceback, UsageError where ranks refused."""
        if self.path is not None:
            return self.path
        assert self.failure is not None
        if self.failure.refused:
            raise UsageError(f"{self.cell}: {self.failure.reason}", hint=self.failure.refused, cell=str(self.cell))
        where = "no rank was started" if self.failure.rank is None else f"rank {self.failure.rank}"
        raise CellFailed(
            f"{self.cell}: {where}: {self.failure.reason}",
            hint=(self.failure.traceback or self.failure.log).rstrip(),
            cell=str(self.cell),
            rank=self.failure.rank,
        )
