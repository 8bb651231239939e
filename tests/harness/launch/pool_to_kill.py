"""Runs a cell that hangs, in the folder given, on slots of that folder; a test kills this process meanwhile."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from pathlib import Path

from gradassay.goldens.layout import Layout
from gradassay.harness.cell import Cell
from gradassay.harness.launch import Pool, Task
from gradassay.harness.launch.slots import SharedSlots, core_slots


@dataclass(frozen=True)
class Here:
    """Surroundings from which ranks can import the functions beside this file."""

    paths: tuple[Path, ...] = (Path(__file__).parent,)
    variables: dict[str, str] = field(default_factory=dict)
    preload: tuple[str, ...] = ()


if __name__ == "__main__":
    cell = Cell(problem="fake", strategy="hangs", layout=Layout(dp=4))
    folder = Path(sys.argv[1])
    slots = SharedSlots(folder, core_slots(range(2)))
    with Pool(environments=lambda name: Here(), slots=slots, servers=folder / "servers") as pool:
        list(pool.run([Task(cell=cell, out=folder / "never", function="ranks_for_tests:hangs")]))
