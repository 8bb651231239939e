"""One cell, from options."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from gradassay.goldens.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gradassay.goldens.layout import Layout
    from gradassay.harness.cell import Cell
    from gradassay.harness.faults import Site

Strategy = Annotated[
    str, typer.Option("--strategy", "-s", help="What runs the step: ddp, fsdp2, hsdp, zero1, deepspeed-zero2 ...")
]
Framework = Annotated[str, typer.Option("--framework", help="A release of the framework zoo, as in deepspeed==0.15.3.")]
Dtype = Annotated[str, typer.Option("--dtype", help="Dtype profile: float32, bfloat16 or float64.")]
Fault = Annotated[str, typer.Option("--fault", help="Inject this fault (gradassay faults list).")]
Options = Annotated[
    list[str] | None, typer.Option("--option", metavar="KEY=VALUE", help="An option of the strategy; repeatable.")
]
Stages = Annotated[
    str, typer.Option("--stages", metavar="LIST", help="What to capture: of local, reduced, clipped, update.")
]
Steps = Annotated[int, typer.Option("--steps", min=1, help="How many steps to run, each after an update by SGD.")]
LearningRate = Annotated[float, typer.Option("--learning-rate", min=0, help="Of the update; needed for one.")]
MaxNorm = Annotated[float, typer.Option("--max-norm", min=0, help="Clip the total norm to this before the update.")]
Deadline = Annotated[
    float, typer.Option("--deadline", min=1, metavar="SECONDS", help="After this a cell is taken down.")
]


def make_cell(
    problem: str,
    strategy: str,
    layout: Layout,
    *,
    framework: str,
    dtype: str,
    fault: str,
    options: Sequence[str] = (),
    full: bool = False,
    stages: Sequence[str] = ("reduced",),
    steps: int = 1,
    learning_rate: float = 0.0,
    max_norm: float = 0.0,
) -> Cell:
    """The cell; raises UsageError for an unknown dtype profile or stage, or an option without a value."""
    from gradassay.harness.cell import DTYPES, Cell

    if dtype not in DTYPES:
        raise UsageError(f"no dtype profile is called {dtype!r}", hint=f"choose from {', '.join(DTYPES)}")
    pairs = {}
    for text in options:
        key, equals, value = text.partition("=")
        if not key or not equals:
            raise UsageError(f"--option {text!r} is not of the form KEY=VALUE")
        pairs[key] = value
    return Cell(
        problem=problem,
        strategy=strategy,
        layout=layout,
        dtype=dtype,
        framework=framework,
        fault=fault,
        options=pairs,
        full=full,
        stages=tuple(dict.fromkeys(stages)),
        steps=steps,
        learning_rate=learning_rate,
        max_norm=max_norm,
    )


def check_cell(cell: Cell) -> None:
    """Raises UsageError for a cell that no rank could run, before any is started."""
    from gradassay.harness.matrix import misfit
    from gradassay.harness.strategies import STRATEGIES

    if cell.strategy not in STRATEGIES:
        raise UsageError(f"no strategy is called {cell.strategy!r}", hint=f"known: {', '.join(sorted(STRATEGIES))}")
    reason = misfit(cell)
    if reason is not None:
        raise UsageError(f"{cell} cannot run: {reason}", hint="choose other sizes or another strategy")
    if cell.fault:
        from gradassay.harness.faults import parse_fault

        parse_fault(cell.fault).check(site_of(cell))


def site_of(cell: Cell) -> Site:
    """Where the cell's fault is injected, seen from rank 0."""
    from gradassay.harness.faults import Site
    from gradassay.harness.problems import load_problem

    problem = load_problem(cell.problem)
    return Site(problem=problem, layout=cell.layout, strategy=cell.strategy, dtype=cell.dtype)
