"""A matrix of 24 cells on the warm pool against one `torchrun` a cell, as JSON.

PYTHONPATH=ci python -m bench.matrix [--seconds 120] [--quick]

As many cells run by torchrun as fit into the seconds, six at least, and the pool runs the same ones again beside them.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median

from gradassay.goldens.layout import Layout
from gradassay.goldens.record import read_record
from gradassay.harness.cell import Cell
from gradassay.harness.launch import Pool, run_cells

PROBLEM, STRATEGIES = "moe-tiny", ("ddp", "fsdp2", "zero1")
LAYOUTS = ("dp4.ep2.accum3", "dp1.accum2", "dp2.ep2", "dp4", "dp2", "dp4.ep4.accum2", "dp2.accum3", "dp1.accum4")
LEAST, POOL_ROUNDS = 6, 3


def main() -> None:
    """Prints {"matrices": [...]}, the seconds of both ways and their ratio."""
    parser = argparse.ArgumentParser(description="the warm pool against one torchrun a cell")
    parser.add_argument("--seconds", type=float, default=120.0, help="how long torchrun may take in all")
    parser.add_argument("--quick", action="store_true", help="few cells: proves that it runs")
    given = parser.parse_args()
    # Neighbours differ in strategy and size, so that the first so many of them are like the rest.
    cells = [
        Cell(problem=PROBLEM, strategy=STRATEGIES[(row + column) % len(STRATEGIES)], layout=Layout.parse(layout))
        for column in range(len(STRATEGIES))
        for row, layout in enumerate(LAYOUTS)
    ]
    cells = cells[:3] if given.quick else cells
    with tempfile.TemporaryDirectory(prefix="gradassay-bench-") as folder, Pool() as pool:
        began = time.perf_counter()
        _on_pool(cells[:1], Path(folder), pool)
        start = time.perf_counter() - began
        whole = [_on_pool(cells, Path(folder), pool) for _ in range(POOL_ROUNDS)]
        alone = _by_torchrun(cells, Path(folder), 0.0 if given.quick else given.seconds, 2 if given.quick else LEAST)
        same = [_on_pool(cells[: len(alone)], Path(folder), pool) for _ in range(POOL_ROUNDS)]
    case = {
        "cells": len(cells),
        "pool_start_s": start,
        "pool_s": median(whole),
        "pool_s_per_cell": median(whole) / len(cells),
        "compared": len(alone),
        "compared_pool_s": median(same),
        "compared_torchrun_s": sum(alone),
        "torchrun_s_per_cell": sum(alone) / len(alone),
        "ratio": sum(alone) / median(same),
    }
    print(json.dumps({"matrices": [case]}))


def _on_pool(cells: Sequence[Cell], folder: Path, pool: Pool) -> float:
    began = time.perf_counter()
    for outcome in run_cells(cells, folder, pool):
        outcome.require()
    return time.perf_counter() - began


def _by_torchrun(cells: Sequence[Cell], folder: Path, seconds: float, least: int) -> list[float]:
    spent: list[float] = []
    for number, cell in enumerate(cells):
        if number >= least and sum(spent) + spent[-1] > seconds:
            break
        out = folder / f"torchrun-{number}.safetensors"
        launcher = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(cell.layout.world)]
        command = ["record", cell.problem, "--strategy", cell.strategy, "--layout", str(cell.layout), "--out", str(out)]
        began = time.perf_counter()
        subprocess.run(
            [sys.executable, *launcher, "-m", "gradassay.cli.main", "--quiet", *command],
            env=os.environ | {"OMP_NUM_THREADS": "1"},
            stdout=sys.stderr,
            check=True,
        )
        spent.append(time.perf_counter() - began)
        assert read_record(out).header.layout == cell.layout
    return spent


if __name__ == "__main__":
    main()
