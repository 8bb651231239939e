"""transformers issue 34191, torchtune issue 1875: every micro-batch's mean counts alike where every token should."""

from __future__ import annotations

from pathlib import Path

from faulty.step import step
from torch.nn.parallel import DistributedDataParallel

from gradassay.harness.cell import Cell


def run(cell: Cell, out: Path) -> None:
    """DDP on units of unequal numbers of tokens."""
    with step(cell, out) as own:
        layout, model = own.layout, DistributedDataParallel(own.model())
        total = sum(own.problem.tokens(unit) for unit in range(layout.units))
        for micro in range(layout.accum):
            share = own.tokens(micro) * layout.dp / total if own.mended else 1 / layout.accum
            (own.loss(model, micro) * share).backward()
        own.record(model)
