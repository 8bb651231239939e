"""Remarks on lines of the matrix file, as commands that GitHub's runner reads from a job's output."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Literal

from gradassay.forges.escaping import shortened
from gradassay.forges.outcome import CellLine, CiResult
from gradassay.goldens.errors import Exit

SHOWN = 10
"""Annotations of one level that GitHub shows of a step."""
LONGEST = 4_000
"""Characters of a message; the runner cuts a little above."""
TITLE = 200


class Level(StrEnum):
    """How grave an annotation is."""

    ERROR = "error"
    NOTICE = "notice"


@dataclass(frozen=True, slots=True, kw_only=True)
class Annotations:
    """commands: lines to print. note: what is said of those that had no place, empty where all had."""

    commands: tuple[str, ...]
    note: str


def annotate(result: CiResult) -> Annotations:
    """One annotation for every cell that does not pass, an accepted divergence as a notice; at most SHOWN a level.

    A job that fails although no cell does has one for the matrix file.
    """
    levels: dict[Level, list[str]] = {level: [] for level in Level}
    for line in result.lines:
        if line.accepted:
            levels[Level.NOTICE].append(_command(Level.NOTICE, result.matrix, line))
        elif line.exit != Exit.AGREE:
            levels[Level.ERROR].append(_command(Level.ERROR, result.matrix, line))
    if result.exit != Exit.AGREE and not levels[Level.ERROR]:
        levels[Level.ERROR].append(_whole(result))
    left = sum(max(0, len(commands) - SHOWN) for commands in levels.values())
    note = f"{left} more annotation{'' if left == 1 else 's'}: GitHub shows {SHOWN} a step" if left else ""
    return Annotations(
        commands=tuple(command for commands in levels.values() for command in commands[:SHOWN]), note=note
    )


def warning(message: str) -> str:
    """A command that shows the message at the job as a whole."""
    return f"::warning title=gradassay::{_data(message)}"


def remark_of(line: CellLine) -> str:
    """What there is to say of one cell, in one or two sentences."""
    said = line.error or line.sentence or line.verdict
    return "\n".join(part for part in (shortened(said, LONGEST), shortened(line.hint, LONGEST), line.link) if part)


def _command(level: Literal[Level.ERROR, Level.NOTICE], matrix: str | None, line: CellLine) -> str:
    properties = []
    if matrix:
        properties.append(f"file={_property(matrix)}")
        if line.line:
            properties.append(f"line={line.line}")
    properties.append(f"title={_property(shortened(f'{line.verdict}: {line.cell}', TITLE))}")
    return f"::{level} {','.join(properties)}::{_data(remark_of(line)[:LONGEST])}"


def _whole(result: CiResult) -> str:
    """For a job that failed before, or beside, its cells."""
    where = f"file={_property(result.matrix)}," if result.matrix else ""
    return f"::error {where}title={_property(shortened(result.verdict, TITLE))}::{_data(_why(result))}"


def _why(result: CiResult) -> str:
    return "\n".join(shortened(note, LONGEST) for note in result.notes)[:LONGEST] or f"exit code {result.exit}"


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
