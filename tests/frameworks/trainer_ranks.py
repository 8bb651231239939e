"""Rank functions for forked ranks of training libraries; imported by name."""

from __future__ import annotations

from pathlib import Path

from torch import Tensor

from gradassay.harness.cell import Cell
from gradassay.harness.interference import Interference
from gradassay.harness.worker import run_rank


def disturbed(cell: Cell, out: Path) -> None:
    """A cell whose rank 1 triples its local gradients of micro step 0 of every layer norm."""

    def gradient(name: str, rank: int, micro: int, values: Tensor) -> Tensor | None:
        return values * 3 if rank == 1 and micro == 0 and "norm" in name else None

    run_rank(cell, out, interference=Interference(gradient=gradient))


def staged(cell: Cell, out: Path) -> None:
    """A cell with two steps, the gradient clipped before each update, captured at every stage."""
    run_rank(
        Cell(
            problem=cell.problem,
            strategy=cell.strategy,
            layout=cell.layout,
            dtype=cell.dtype,
            framework=cell.framework,
            options=cell.options,
            stages=("local", "reduced", "clipped", "update"),
            steps=2,
            learning_rate=LEARNING_RATE,
            max_norm=MAX_NORM,
        ),
        out,
    )


LEARNING_RATE = 1024.0
MAX_NORM = 0.1
