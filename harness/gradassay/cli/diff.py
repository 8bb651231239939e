"""`gradassay diff`: assays records against a golden, or against another record."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gradassay.cli.session import leave, session_of
from gradassay.goldens.report import Format


def diff(
    context: typer.Context,
    a: Annotated[
        str,
        typer.Argument(
            metavar="A", help="A golden or record: file, folder, run:ID, golden:NAME, golden:NAME@v3, mlflow:RUN_ID."
        ),
    ],
    b: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="B",
            help="What to compare with it; several are explained jointly. Without it, A is a record with its own units.",
        ),
    ] = None,
    format: Annotated[Format, typer.Option("--format", "-f", help="How to print the assay.")] = Format.TEXT,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Write the report to this file.")] = None,
    stage: Annotated[
        str | None,
        typer.Option("--stage", help="Where gradients were taken: local, reduced, clipped, update; all by default."),
    ] = None,
    step: Annotated[int | None, typer.Option("--step", min=1, help="Optimizer step, from 1; all by default.")] = None,
) -> None:
    """Assay B against golden A (or record A): which parameters diverge, by which factor, under which law.

    A record made with --self-assay needs no B: its reduced gradients are assayed against its own local ones.
    """
    from gradassay.cli.comparing import compare, compare_with_itself, joint_findings, write_report
    from gradassay.goldens.assay.result import EXITS, joint_verdict

    session = session_of(context)
    assays = (
        compare(session, a, b, stage=stage, step=step) if b else compare_with_itself(session, a, stage=stage, step=step)
    )
    wanted = Format.JSON if session.json and format is Format.TEXT else format
    write_report(session, assays, joint_findings(assays), wanted, output)
    leave(EXITS[joint_verdict(assays)])
