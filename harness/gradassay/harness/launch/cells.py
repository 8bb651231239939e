"""Runs the cells of a matrix into a folder."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from gradassay.harness.cell import Cell
from gradassay.harness.launch.outcome import DEADLINE_S, Outcome, Task
from gradassay.harness.launch.pool import Pool
from gradassay.harness.progress import Progress, Silent


def record_name(cell: Cell) -> str:
    """The file name of a cell's record: the cell as text, without what file names do not bear."""
    formula = str(cell).replace("*", "x").replace("/", "over")
    return re.sub(r"[^A-Za-z0-9.=@,+-]+", "_", formula) + ".safetensors"


def run_cells(
    cells: Sequence[Cell],
    folder: Path,
    pool: Pool,
    *,
    deadline_s: float = DEADLINE_S,
    progress: Progress | None = None,
    title: str = "cells",
) -> list[Outcome]:
    """The outcome of every cell, in the order of `cells`; records land in `folder` under `record_name`.

    A cell that fails is an Outcome with a failure, and the others run on.
    """
    progress = progress or Silent()
    tasks = [Task(cell=cell, out=folder / record_name(cell), deadline_s=deadline_s) for cell in cells]
    outcomes: dict[str, Outcome] = {}
    with progress.stage(title, len(tasks)) as advance:
        for outcome in pool.run(tasks):
            outcomes[str(outcome.cell)] = outcome
            advance(str(outcome.cell), ok=outcome.failure is None)
    return [outcomes[str(cell)] for cell in cells]
