"""Runs cells for the commands: on ranks of this machine, or as the rank that torchrun made of this process."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from gradassay.cli.cells import check_cell
from gradassay.cli.session import Session
from gradassay.goldens.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gradassay.harness.cell import Cell
    from gradassay.harness.launch import Outcome
    from gradassay.harness.progress import Progress


def run_cell(session: Session, cell: Cell, out: Path, *, deadline_s: float) -> bool:
    """Runs one cell and writes its record at `out`; True where this process speaks for it (rank 0, or no rank).

    Raises CellFailed with the failing rank's traceback where this process started the ranks.
    """
    from gradassay.harness.launch.torchrun import launched_rank

    check_cell(cell)
    rank = launched_rank()
    if rank is not None:
        import os

        from gradassay.harness.worker import run_rank

        os.environ.update(rank.variables())
        run_rank(cell, out)
        return rank.rank == 0
    from gradassay.harness.launch import Pool, Task

    progress = session.progress()
    with Pool(say=progress.say) as pool, progress.stage("recording", 1) as advance:
        (outcome,) = pool.run([Task(cell=cell, out=out, deadline_s=deadline_s)])
        advance(str(cell), ok=outcome.failure is None)
    outcome.require()
    return True


def run_all(cells: Sequence[Cell], folder: Path, progress: Progress, *, deadline_s: float, title: str) -> list[Outcome]:
    """Runs cells into a folder, those that fail beside those that do not."""
    from gradassay.harness.launch import Pool, run_cells
    from gradassay.harness.launch.torchrun import launched_rank

    if launched_rank() is not None:
        raise UsageError(
            "a matrix starts ranks of its own, and this process is already a rank of torchrun or srun",
            hint="run the matrix without them, or one cell with them",
        )
    with Pool(say=progress.say) as pool:
        return run_cells(cells, folder, pool, deadline_s=deadline_s, progress=progress, title=title)
