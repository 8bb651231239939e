"""Runs what a golden is made of, and builds it."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from gradassay.goldens.container import digest_of_file
from gradassay.goldens.errors import GoldenRefused, UsageError
from gradassay.goldens.golden import Golden
from gradassay.goldens.record import read_record
from gradassay.harness.build.assembly import Referred, Second, assemble
from gradassay.harness.build.basis import Following, basis_tasks, read_basis
from gradassay.harness.cell import DTYPES, Cell
from gradassay.harness.launch import Outcome, Pool, Task, record_name
from gradassay.harness.launch.outcome import DEADLINE_S
from gradassay.harness.problems import load_problem
from gradassay.harness.progress import Progress, Silent


def build_golden(
    problem: str,
    dtype: str,
    references: Sequence[Cell],
    *,
    pool: Pool,
    folder: Path,
    deadline_s: float = DEADLINE_S,
    progress: Progress | None = None,
    following: Following | None = None,
) -> Golden:
    """The golden of `problem` in `dtype`: the float64 gradient of every unit, and the noise of the reference cells.

    following: also the basis of the step after this update, which those references run that have as many units. The
    references' records are left in `folder`, under `record_name`; the golden itself is the caller's to write. Raises
    UsageError for references that do not fit, CellFailed where the basis could not be computed, and GoldenRefused where a
    reference failed, is wrong, or the golden would be too weak.
    """
    for cell in references:
        _check_cell(cell, problem, dtype)
    if following is not None:
        references = [_going_on(cell, following) for cell in references]
    progress = progress or Silent()
    runs = [Task(cell=cell, out=folder / record_name(cell), deadline_s=deadline_s) for cell in references]
    with tempfile.TemporaryDirectory(prefix="gradassay-basis-") as temporary:
        parts = basis_tasks(problem, Path(temporary), deadline_s=deadline_s)
        later = []
        if following is not None:
            later = basis_tasks(problem, Path(temporary), deadline_s=deadline_s, following=following)
        outcomes: dict[Path, Outcome] = {}
        tasks = {str(task.cell): task for task in (*parts, *later, *runs)}
        with progress.stage(f"golden {problem}.{dtype}", len(tasks)) as advance:
            for outcome in pool.run(tasks.values()):
                task = tasks[str(outcome.cell)]
                outcomes[task.out] = outcome
                advance(str(outcome.cell), ok=outcome.failure is None)
                if task in parts or task in later:
                    outcome.require()
        basis = read_basis([outcomes[part.out].require() for part in parts])
        second = None
        if following is not None:
            second = Second(basis=read_basis([outcomes[part.out].require() for part in later]), following=following)
    _check_outcomes([outcomes[run.out] for run in runs])
    referred = {str(run.cell): Referred(record=read_record(run.out), digest=digest_of_file(run.out)) for run in runs}
    return assemble(load_problem(problem), DTYPES[dtype], basis, referred, second=second, progress=progress)


def _going_on(cell: Cell, following: Following) -> Cell:
    if cell.layout.units != following.units:
        return cell
    return replace(cell, steps=2, learning_rate=following.learning_rate)


def _check_cell(cell: Cell, problem: str, dtype: str) -> None:
    if (cell.problem, cell.dtype) != (problem, dtype):
        raise UsageError(
            f"{cell} is no reference for {problem} in {dtype}",
            hint="a golden is built from cells of its own problem and dtype",
        )
    if cell.fault:
        raise UsageError(f"{cell} has an injected fault", hint="references run as they are")


def _check_outcomes(outcomes: Sequence[Outcome]) -> None:
    failed = [outcome for outcome in outcomes if outcome.failure is not None]
    if not failed:
        return
    first = failed[0].failure
    assert first is not None
    names = "; ".join(f"{outcome.cell}: {outcome.failure.reason}" for outcome in failed if outcome.failure is not None)
    raise GoldenRefused(
        f"{len(failed)} of {len(outcomes)} references failed: {names}",
        hint=(first.traceback or first.log).rstrip(),
        failed=[str(outcome.cell) for outcome in failed],
    )
