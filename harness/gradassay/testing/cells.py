"""Runs the cells that tests ask for, each once a session, on warm ranks that end with it."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from gradassay.goldens.atomic import write_atomically
from gradassay.goldens.errors import GradassayError, UsageError
from gradassay.goldens.extras import require
from gradassay.goldens.store.lock import locked

if TYPE_CHECKING:
    from gradassay.harness.cell import Cell
    from gradassay.harness.launch import Outcome, Pool

RECORDS = "records"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Key:
    """What makes two cells the same run."""

    cell: str
    full: bool


class Cells:
    """The cells of one process of a session.

    folder: where records land, in `records`; an earlier session may have left some. scratch: a folder of this session and
    its workers alone, which says what they have run.
    """

    def __init__(self, folder: Path, scratch: Path) -> None:
        self._folder = folder
        self._done = scratch / "cells"
        self._servers = scratch / "servers"
        self._pool: Pool | None = None
        self._outcomes: dict[_Key, Outcome] = {}

    def run(self, cell: Cell, *, deadline_s: float) -> Outcome:
        """What came of the cell, run now unless this session has run it, in this worker or another.

        A cell that failed is not tried again. Raises UsageError where a release is not installed, MissingExtra.
        """
        key = _Key(cell=str(cell), full=cell.full)
        if key not in self._outcomes:
            self._outcomes[key] = self._run(cell, deadline_s)
        return self._outcomes[key]

    def warm(self, frameworks: Iterable[str]) -> None:
        """Starts what runs cells of these frameworks, without waiting; what cannot be started is told by the first cell."""
        with suppress(GradassayError):
            self.pool.warm(*frameworks)

    @property
    def pool(self) -> Pool:
        """The pool of warm ranks; raises MissingExtra without torch, UsageError in a rank of torchrun or srun."""
        if self._pool is None:
            require("torch")
            from gradassay.harness.launch import Pool
            from gradassay.harness.launch.torchrun import launched_rank

            if launched_rank() is not None:
                raise UsageError(
                    "tests start ranks of their own, and this process is already a rank of torchrun or srun",
                    hint="run pytest without them",
                )
            self._pool = Pool(servers=self._servers)
        return self._pool

    def close(self) -> None:
        """Ends the ranks and what forked them."""
        if self._pool is not None:
            self._pool.close()
            self._pool = None

    def _run(self, cell: Cell, deadline_s: float) -> Outcome:
        from gradassay.harness.launch import Outcome, Task, record_name

        name = record_name(cell).removesuffix(".safetensors") + ("-full" if cell.full else "")
        out = self._folder / RECORDS / f"{name}.safetensors"
        done = self._done / f"{name}.done"
        with locked(self._done / f"{name}.lock"):
            if done.exists():
                return Outcome(cell=cell, seconds=0.0, path=out)
            (outcome,) = self.pool.run([Task(cell=cell, out=out, deadline_s=deadline_s)])
            if outcome.failure is None:
                write_atomically(done, b"")
            return outcome
