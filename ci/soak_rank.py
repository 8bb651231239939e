"""A rank of `make soak`: torch's own switches first, then the cell."""

from __future__ import annotations

import os
from pathlib import Path

import torch

from gradassay.harness.cell import Cell
from gradassay.harness.worker import run_rank

# As soak_plan.SWITCHES, which ranks of another torch need not import.
SWITCHES = "GRADASSAY_SOAK_SWITCHES"


def run(cell: Cell, out: Path) -> None:
    """Runs this rank of `cell` as `run_rank` does."""
    for switch in os.environ.get(SWITCHES, "").split():
        match switch:
            case "mkldnn-off":
                torch.backends.mkldnn.set_flags(False)
            case "denormals-flushed":
                assert torch.set_flush_denormal(True), "this processor cannot flush denormals"
            case _:
                raise AssertionError(f"no switch is called {switch!r}")
    run_rank(cell, out)
