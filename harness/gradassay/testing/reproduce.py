"""The commands that show outside pytest what a test showed."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING

from gradassay.harness.launch.outcome import DEADLINE_S
from gradassay.testing.options import without_secret

if TYPE_CHECKING:
    from gradassay.harness.cell import Cell

RECORD = "run.safetensors"


def record_command(cell: Cell, *, deadline_s: float = DEADLINE_S) -> str:
    """The command that runs the cell and leaves its record in RECORD."""
    words = ["gradassay", "record", cell.problem, "--strategy", cell.strategy, "--layout", str(cell.layout)]
    given: dict[str, str] = {
        "--framework": cell.framework,
        "--dtype": cell.dtype if cell.dtype != "float32" else "",
        "--fault": cell.fault,
        "--stages": ",".join(cell.stages) if cell.stages != ("reduced",) else "",
        "--steps": str(cell.steps) if cell.steps > 1 else "",
        "--learning-rate": repr(cell.learning_rate) if cell.learning_rate else "",
        "--max-norm": repr(cell.max_norm) if cell.max_norm else "",
        "--deadline": f"{deadline_s:g}" if deadline_s != DEADLINE_S else "",
    }
    for option, value in given.items():
        words += [option, value] if value else []
    for key, value in cell.options.items():
        words += ["--option", f"{key}={value}"]
    words += ["--full"] if cell.full else []
    return shlex.join([*words, "--out", RECORD])


def diff_command(golden: str, record: str | Path, *, store: str, service: bool) -> str:
    """The command that compares a record's file with a golden of the store, or of the service."""
    where = [] if not golden.startswith("golden:") else ["--url" if service else "--store", without_secret(store)]
    return shlex.join(["gradassay", *where, "diff", golden, str(record)])
