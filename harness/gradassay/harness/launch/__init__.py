"""Starts the ranks of cells: from a warm pool on this machine, or in place where torchrun or srun started them."""

from __future__ import annotations

from gradassay.harness.launch.cells import record_name, run_cells
from gradassay.harness.launch.outcome import Failure, Outcome, Task
from gradassay.harness.launch.pool import Pool

__all__ = ["Failure", "Outcome", "Pool", "Task", "record_name", "run_cells"]
