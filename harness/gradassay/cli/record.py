"""`gradassay record`: runs one cell, or a matrix of cells, and writes what they captured."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gradassay.cli.cells import (
    Deadline,
    Dtype,
    Fault,
    Framework,
    LearningRate,
    MaxNorm,
    Options,
    Stages,
    Steps,
    Strategy,
    make_cell,
)
from gradassay.cli.failure import report_error
from gradassay.cli.layouts import Accum, Cp, Dp, Ep, LayoutText, Pp, Replicate, Tp, layout_of
from gradassay.cli.running import run_all, run_cell
from gradassay.cli.session import Session, leave, session_of
from gradassay.goldens.errors import CellFailed, Exit, UsageError

if TYPE_CHECKING:
    from gradassay.harness.launch import Outcome

PROBLEM = "moe-tiny"
"""What runs where no problem is named."""


def record(
    context: typer.Context,
    problem: Annotated[
        str | None,
        typer.Argument(metavar="[PROBLEM]", help="Name of a problem (default: moe-tiny), or module:function."),
    ] = None,
    strategy: Strategy = "",
    framework: Framework = "",
    layout: LayoutText = "",
    dp: Dp = None,
    ep: Ep = None,
    tp: Tp = None,
    pp: Pp = None,
    cp: Cp = None,
    replicate: Replicate = None,
    accum: Accum = None,
    dtype: Dtype = "float32",
    fault: Fault = "",
    option: Options = None,
    full: Annotated[bool, typer.Option("--full", help="Store the gradients themselves beside their sketches.")] = False,
    stages: Stages = "reduced",
    steps: Steps = 1,
    learning_rate: LearningRate = 0.0,
    max_norm: MaxNorm = 0.0,
    self_assay: Annotated[
        bool, typer.Option("--self-assay", help="Also sketch every rank's own gradient of every micro-batch (local).")
    ] = False,
    matrix: Annotated[Path | None, typer.Option("--matrix", help="Run the cells of this TOML file instead.")] = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="Record file, else named after the cell; with --matrix a folder."),
    ] = None,
    deadline: Deadline = 600.0,
) -> None:
    """Run a problem's step and write a record of its gradients; under torchrun or srun every rank runs this command."""
    session = session_of(context)
    if matrix is not None:
        if out is None:
            raise UsageError("nowhere to write to", hint="give --out FOLDER with --matrix")
        if problem or strategy:
            raise UsageError("--matrix says which problems and strategies run", hint="leave PROBLEM and --strategy out")
        _record_matrix(session, matrix, out, deadline_s=deadline)
        return
    if self_assay and fault:
        raise UsageError(
            f"fault {fault} would be in the local gradients that --self-assay judges by, and agree with itself",
            hint="write --stages local,reduced and assay the record against a golden; or leave --fault out",
        )
    named = [stage.strip() for stage in stages.split(",")]
    cell = make_cell(
        problem or PROBLEM,
        strategy or _default_strategy(framework),
        layout_of(layout, dp=dp, ep=ep, tp=tp, pp=pp, cp=cp, replicate=replicate, accum=accum),
        framework=framework,
        dtype=dtype,
        fault=fault,
        options=option or [],
        full=full,
        stages=["local", *named] if self_assay else named,
        steps=steps,
        learning_rate=learning_rate,
        max_norm=max_norm,
    )
    if out is None:
        from gradassay.harness.launch import record_name

        out = Path(record_name(cell))
    if run_cell(session, cell, out, deadline_s=deadline):
        if session.json:
            session.emit_json({"cell": str(cell), "file": str(out)})
        session.say(f"{cell}: {out}")


def _default_strategy(framework: str) -> str:
    """What a framework runs where nothing else is said; raises UsageError where nothing was said at all."""
    if not framework:
        raise UsageError(
            "which step is to run?", hint="write gradassay record PROBLEM --strategy NAME --dp N, or --matrix FILE"
        )
    from gradassay.harness.environments import FAMILIES, parse

    strategies = FAMILIES[parse(framework)[0]].strategies
    if not strategies:
        raise UsageError(
            f"no strategy runs {framework} by itself", hint="capture a script of your own that uses it, by a Recorder"
        )
    return strategies[0]


def _record_matrix(session: Session, matrix: Path, folder: Path, *, deadline_s: float) -> None:
    from gradassay.harness.matrix import read_matrix

    read = read_matrix(matrix)
    for reason, count in read.skipped.items():
        session.say(f"left out, {count} times: {reason}")
    outcomes = run_all(read.cells, folder, session.progress(), deadline_s=deadline_s, title="recording")
    if session.json:
        session.emit_json([_outcome_json(outcome) for outcome in outcomes])
    failed = [outcome for outcome in outcomes if outcome.failure is not None]
    for outcome in failed:
        try:
            outcome.require()
        except CellFailed as error:
            report_error(error)
    session.say(f"{len(outcomes) - len(failed)} of {len(outcomes)} records: {folder}")
    if failed:
        leave(Exit.INCOMPLETE)


def _outcome_json(outcome: Outcome) -> dict[str, object]:
    failure = outcome.failure
    return {
        "cell": str(outcome.cell),
        "seconds": round(outcome.seconds, 3),
        "file": str(outcome.path) if outcome.path else None,
        "failure": None if failure is None else {"rank": failure.rank, "reason": failure.reason},
    }
