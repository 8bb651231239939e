"""Honest runs, with the gradients themselves, that errors are put into."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from gradassay.goldens.errors import UsageError
from gradassay.goldens.golden import Golden
from gradassay.goldens.layout import Layout
from gradassay.goldens.record import Record, read_record
from gradassay.harness.cell import Cell
from gradassay.harness.launch import Pool, run_cells
from gradassay.harness.launch.outcome import DEADLINE_S
from gradassay.harness.power.published import Gradients
from gradassay.harness.problems import load_problem
from gradassay.harness.problems.protocol import Problem
from gradassay.harness.progress import Progress

STRATEGIES = ("ddp", "fsdp2", "zero1")
STAGE = "reduced.1"


@dataclass(frozen=True, slots=True, kw_only=True)
class Honest:
    """golden: of the problem. layout: of all runs. records: candidates by strategy, with their gradients.

    reference: the gradients of one rank that runs all units, what others compare with. truth: the same in float64. unit:
    those of unit 0 alone, in float64.
    """

    golden: Golden
    problem: Problem
    layout: Layout
    records: dict[str, Record]
    reference: Gradients
    truth: Gradients
    unit: Gradients

    @property
    def dtype(self) -> str:
        """The dtype profile of the runs."""
        return str(self.golden.header.dtype)


def layout_of(problem: Problem) -> Layout:
    """Four ranks, three micro-batches each; experts over two where there are any."""
    return Layout(dp=4, ep=2 if problem.experts % 2 == 0 and problem.experts else 1, accum=3)


def run_honest(
    golden: Golden, pool: Pool, folder: Path, *, deadline_s: float = DEADLINE_S, progress: Progress | None = None
) -> Honest:
    """The runs of a golden's problem in its dtype; records land in `folder`.

    Raises UsageError where the problem is another one than the golden's or too small, CellFailed where a run fails.
    """
    problem, dtype = load_problem(golden.header.problem.name), str(golden.header.dtype)
    if problem.digest != golden.header.problem.digest:
        raise UsageError(
            f"{golden.name} is of another revision of {problem.name}: {golden.header.problem.digest}, not {problem.digest}",
            hint="build its golden again",
        )
    layout = layout_of(problem)
    if layout.units > problem.units:
        raise UsageError(
            f"{problem.name} has {problem.units} units, and honest runs need {layout.units}", hint="name another golden"
        )
    single = Layout(accum=layout.units)
    cells = [
        *(Cell(problem=problem.name, strategy=name, layout=layout, dtype=dtype, full=True) for name in STRATEGIES),
        Cell(problem=problem.name, strategy="single", layout=single, dtype=dtype, full=True),
        Cell(problem=problem.name, strategy="single", layout=single, dtype="float64", full=True),
        Cell(problem=problem.name, strategy="single", layout=Layout(), dtype="float64", full=True),
    ]
    outcomes = run_cells(cells, folder, pool, deadline_s=deadline_s, progress=progress, title="honest runs")
    records = [read_record(outcome.require()) for outcome in outcomes]
    *candidates, reference, truth, unit = records
    return Honest(
        golden=golden,
        problem=problem,
        layout=layout,
        records=dict(zip(STRATEGIES, candidates, strict=True)),
        reference=gradients(reference),
        truth=gradients(truth),
        unit=gradients(unit),
    )


def gradients(record: Record) -> Gradients:
    """The gradients that a record holds in full."""
    full = record.captures[STAGE].full
    assert full is not None, "the run was asked for its gradients"
    return full
