"""Lines of a job's result, and what they come to together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gradassay.cli.integration.recorded import Recorded
from gradassay.cli.waiting import GRAVEST
from gradassay.forges.outcome import CellLine, CiResult
from gradassay.goldens.errors import Exit, GradassayError, NoGolden

FAILED = "failed"
"""The verdict of what could not be judged."""


def line_of_assay(recorded: Recorded, assay: dict[str, Any], *, link: str = "", accepted: bool = False) -> CellLine:
    """The line of a cell that was judged. accepted: its divergence is, and passes."""
    findings = assay["findings"]
    return CellLine(
        cell=str(recorded.cell),
        line=recorded.line,
        verdict=assay["verdict"],
        exit=int(Exit.AGREE) if accepted else assay["exit"],
        law=findings[0]["law"]["formula"] if findings else "",
        sentence=assay["sentence"],
        link=link,
        golden=assay["a"]["ref"],
        accepted=accepted,
        assay=assay,
    )


def line_of_error(recorded: Recorded, error: GradassayError, *, link: str = "") -> CellLine:
    """The line of a cell that was not judged, and why."""
    return CellLine(
        cell=str(recorded.cell),
        line=recorded.line,
        verdict=FAILED,
        exit=int(error.kind.exit),
        link=link,
        error=error.message,
        hint=error.hint,
    )


def no_golden(error: NoGolden, recorded: Recorded, golden: str, where: str) -> NoGolden:
    """The error with the commands that make a golden. where: the option that names the store or service."""
    cell = recorded.cell
    hint = (
        f"gradassay golden build {cell.problem} --dtype {cell.dtype} {where}\n"
        f"gradassay golden approve {golden} VERSION --reason WHY {where}"
    )
    return NoGolden(error.message, hint=hint, **{**error.facts, "golden": golden})


def result_of(matrix: str, lines: Sequence[CellLine], *, notes: Sequence[str]) -> CiResult:
    """The job as a whole: its exit code is the gravest of its lines, in the order of `gradassay wait`."""
    exit = min((Exit(line.exit) for line in lines), key=GRAVEST.index)
    verdict = next(line.verdict for line in lines if line.exit == exit)
    return CiResult(
        exit=int(exit), verdict=verdict, matrix=matrix, lines=tuple(lines), notes=tuple(dict.fromkeys(notes))
    )


def failed_job(matrix: str, error: GradassayError) -> CiResult:
    """The result of a job that ended before its cells; where a line of the matrix file is to blame it has that line."""
    exit, at = int(error.kind.exit), error.facts.get("line")
    if not isinstance(at, int):
        notes = [error.message, *([error.hint] if error.hint else [])]
        return CiResult(exit=exit, verdict=FAILED, matrix=matrix, notes=tuple(notes))
    line = CellLine(cell=matrix, line=at, verdict=FAILED, exit=exit, error=error.message, hint=error.hint)
    return CiResult(exit=exit, verdict=FAILED, matrix=matrix, lines=(line,))


def bug_of_job(matrix: str, error: Exception) -> CiResult:
    """The result of a job that met a bug of gradassay."""
    note = f"this is a bug of gradassay ({type(error).__name__}: {error})"
    return CiResult(exit=int(Exit.BUG), verdict=FAILED, matrix=matrix, notes=(note,))
