"""`gradassay faults`: public reports of wrong gradients, and faults to inject."""

from __future__ import annotations

import difflib
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gradassay.cli.cells import Deadline, Dtype, Framework, Strategy, check_cell, make_cell, site_of
from gradassay.cli.layouts import Accum, Dp, Ep, LayoutText, Replicate, layout_of
from gradassay.cli.running import run_cell
from gradassay.cli.session import leave, session_of
from gradassay.goldens.errors import NotFound
from gradassay.goldens.report import Format

if TYPE_CHECKING:
    from gradassay.goldens.assay.result import Assay
    from gradassay.goldens.faults import Fault
    from gradassay.goldens.reference import Referred
    from gradassay.harness.cell import Cell
    from gradassay.harness.faults import InjectableFault

app = typer.Typer(help="Public reports of wrong gradients, and faults to inject.", no_args_is_help=True)


@app.command("list")
def list_faults(context: typer.Context) -> None:
    """List the public reports with the law that each leaves behind, and the faults that can be injected."""
    from rich.console import Group
    from rich.text import Text

    from gradassay.cli.tables import table
    from gradassay.goldens.faults import load_catalogue
    from gradassay.harness.faults import injectable

    session = session_of(context)
    reports, kinds = load_catalogue(), injectable()
    if session.json:
        session.emit_json(
            {"reports": [_report_json(fault) for fault in reports], "injectable": [_kind_json(kind) for kind in kinds]}
        )
        return
    public = table(
        ("report", "framework", "law", "families", "what happens"),
        ((fault.id, fault.framework, _law(fault), ", ".join(fault.families), fault.title) for fault in reports),
    )
    own = table(
        ("fault", "what happens", "settings", "needs"),
        ((kind.name, kind.description, ", ".join(kind.settings), kind.needs) for kind in kinds),
    )
    session.show(Group(public, Text(), own))
    session.say(
        "inject a fault as NAME[:FAMILY][:KEY=VALUE,...], or as the report that it is known from, with --fault or faults inject"
    )


@app.command("show")
def show(
    context: typer.Context, id: Annotated[str, typer.Argument(metavar="ID", help="As printed by faults list.")]
) -> None:
    """Show one public report: its signature, the releases that have it, and what it takes to see it."""
    from gradassay.goldens.faults import load_catalogue
    from gradassay.harness.faults.reports import ELSEWHERE, REPORTS

    session = session_of(context)
    catalogue = {fault.id: fault for fault in load_catalogue()}
    fault = catalogue.get(id)
    if fault is None:
        close = difflib.get_close_matches(id, catalogue, n=3)
        raise NotFound(
            f"no fault is called {id!r}",
            hint=f"did you mean {' or '.join(close)}?" if close else "gradassay faults list prints all of them",
        )
    if session.json:
        session.emit_json(_report_json(fault))
        return
    facts = {
        "report": fault.report,
        "framework": fault.framework,
        "broken": fault.broken,
        "fixed": fault.fixed,
        "families": ", ".join(fault.families),
        "law": _law(fault),
        "needs": fault.needs,
        "note": fault.note,
        "seen here": "yes: the broken release ran, and showed this law" if fault.reproduced else "",
        "inject": REPORTS.get(fault.id) or f"no: {ELSEWHERE.get(fault.id, 'nothing here leaves the same gradients')}",
    }
    lines = [f"{fault.id}: {fault.title}", *(f"  {name:<10} {value}" for name, value in facts.items() if value)]
    session.emit("\n".join(lines) + "\n")


@app.command("inject")
def inject(
    context: typer.Context,
    fault: Annotated[
        str,
        typer.Argument(metavar="FAULT", help="NAME[:FAMILY][:KEY=VALUE,...] or a report, as printed by faults list."),
    ],
    problem: Annotated[str, typer.Option("--problem", help="Name of a problem, or module:function.")] = "moe-tiny",
    strategy: Strategy = "ddp",
    framework: Framework = "",
    layout: LayoutText = "",
    dp: Dp = None,
    ep: Ep = None,
    accum: Accum = None,
    replicate: Replicate = None,
    dtype: Dtype = "float32",
    golden: Annotated[
        str, typer.Option("--golden", help="What to assay it against; by default the approved golden.")
    ] = "",
    out: Annotated[Path | None, typer.Option("--out", "-o", help="Keep the record in this file.")] = None,
    format: Annotated[Format, typer.Option("--format", "-f", help="How to print the assay.")] = Format.TEXT,
    deadline: Deadline = 600.0,
) -> None:
    """Run a step with a fault injected, and assay what comes out against the golden: is it seen, and is it named?"""
    from tempfile import TemporaryDirectory

    from gradassay.cli.comparing import write_report
    from gradassay.cli.golden import one_golden
    from gradassay.goldens.comparing import assay_all
    from gradassay.goldens.reference import Referred

    session = session_of(context)
    sizes = layout_of(layout, dp=dp, ep=ep, accum=accum, replicate=replicate)
    cell = make_cell(problem, strategy, sizes, framework=framework, dtype=dtype, fault=fault)
    check_cell(cell)
    base = one_golden(session, golden or f"golden:{problem}.{dtype}")
    with TemporaryDirectory(prefix="gradassay-fault-") as folder:
        base = _explaining(base, cell, Path(folder))
        path = out or Path(folder) / "record.safetensors"
        if not run_cell(session, cell, path, deadline_s=deadline):
            return
        (assay,) = assay_all(base, [Referred(kind="record", ref=str(cell), path=path)])
        judged = _judged(cell, assay, base)
    write_report(session, [assay], (), Format.JSON if session.json and format is Format.TEXT else format)
    session.say(judged)
    leave(assay.exit)


def _explaining(base: Referred, cell: Cell, folder: Path) -> Referred:
    """The golden, or for a buffer that was not cleared a copy of it that also holds the step before."""
    from dataclasses import replace

    from gradassay.goldens.assay.result import Pattern
    from gradassay.goldens.golden import read_golden
    from gradassay.harness.faults import parse_fault, with_step_before
    from gradassay.harness.problems import load_problem

    if parse_fault(cell.fault).pattern is not Pattern.STALE:
        return base
    path = folder / "golden.safetensors"
    with_step_before(read_golden(base.path), load_problem(cell.problem)).write(path)
    return replace(base, path=path)


def _judged(cell: Cell, assay: Assay, base: Referred) -> str:
    from gradassay.goldens.golden import read_golden
    from gradassay.harness.faults import judge, parse_fault

    fault = parse_fault(cell.fault)
    judgement = judge(fault, assay, read_golden(base.path), site_of(cell))
    if judgement.named:
        return f"{fault}: seen, and called by its name"
    return f"{fault}: {'seen' if judgement.detected else 'not seen'}; {'; '.join(judgement.complaints)}"


def _law(fault: Fault) -> str:
    return f"w[r,m] = {' or '.join(fault.laws)}" if fault.laws else str(fault.pattern)


def _kind_json(kind: InjectableFault) -> dict[str, Any]:
    return {
        "name": kind.name,
        "pattern": str(kind.pattern),
        "description": kind.description,
        "settings": list(kind.settings),
        "needs": kind.needs,
        "strategies": list(kind.strategies),
        "families": not kind.only_all,
    }


def _report_json(fault: Fault) -> dict[str, Any]:
    from gradassay.harness.faults import REPORTS

    return {
        "id": fault.id,
        "title": fault.title,
        "report": fault.report,
        "framework": fault.framework,
        "broken": fault.broken,
        "fixed": fault.fixed,
        "families": list(fault.families),
        "pattern": str(fault.pattern),
        "laws": list(fault.laws),
        "needs": fault.needs,
        "note": fault.note,
        "reproduced": fault.reproduced,
        "inject": REPORTS.get(fault.id),
    }
