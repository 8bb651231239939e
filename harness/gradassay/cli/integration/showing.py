"""A job's result on the terminal, or in the log of the job."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from gradassay.goldens.assay.result import Verdict
from gradassay.goldens.errors import Exit
from gradassay.goldens.report.printable import printable

if TYPE_CHECKING:
    from gradassay.cli.session import Session
    from gradassay.forges.outcome import CellLine, CiResult

MARKS: Mapping[int, str] = {Exit.AGREE: "✓", Exit.DIVERGE: "✗"}


def result_json(result: CiResult) -> dict[str, Any]:
    """What `--json` prints."""
    document = asdict(result)
    document["cells"] = document.pop("lines")
    return document


def show_result(session: Session, result: CiResult) -> None:
    """Writes what does not agree in full, then a line a cell, to stdout; what went wrong goes to stderr, each error once.

    With `--json` stdout is left to that.
    """
    if result.skipped:
        session.say(f"skipped: {result.skipped}")
    if not session.json:
        for line in result.lines:
            if line.assay is not None and line.verdict != Verdict.AGREE:
                _show(session, line.assay)
        for line in result.lines:
            session.emit(_line(line))
    for (error, hint), cells in _errors(result).items():
        _report(session, error, hint, cells)
    for note in result.notes:
        session.say(printable(note))


def _show(session: Session, assay: dict[str, Any]) -> None:
    from gradassay.goldens.report.json import from_json
    from gradassay.goldens.report.text import terminal

    session.show(terminal([from_json(assay)]))
    session.emit("\n")


def _line(line: CellLine) -> str:
    verdict = f"{line.verdict}, accepted" if line.accepted else line.verdict
    parts = [f"{MARKS.get(line.exit, '?')} {verdict}", line.cell, line.law, line.link]
    return "  ".join(printable(part) for part in parts if part) + "\n"


def _errors(result: CiResult) -> dict[tuple[str, str], list[str]]:
    """The cells by what went wrong with them."""
    found: dict[tuple[str, str], list[str]] = {}
    for line in result.lines:
        if line.error:
            found.setdefault((line.error, line.hint), []).append(line.cell)
    return found


def _report(session: Session, error: str, hint: str, cells: list[str]) -> None:
    print(f"gradassay: {printable(error)}", file=sys.stderr)
    if len(cells) > 1:
        session.say(f"  {len(cells)} cells: {', '.join(map(printable, cells))}")
    if hint:
        print("\n".join(f"  {printable(part)}" for part in hint.splitlines()), file=sys.stderr)
