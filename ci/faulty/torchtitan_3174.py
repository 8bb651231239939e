"""torchtitan pull request 3174, unsloth-zoo 892: both uses of a tied weight bring the gradient that they share."""

from __future__ import annotations

from pathlib import Path

from faulty.step import step
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from gradassay.harness.cell import Cell


def run(cell: Cell, out: Path) -> None:
    """DDP, then the sum over the places where the embedding is used."""
    with step(cell, out) as own:
        layout, inner = own.layout, own.model()
        model = DistributedDataParallel(inner)
        total = sum(own.problem.tokens(unit) for unit in range(layout.units))
        for micro in range(layout.accum):
            (own.loss(model, micro) * own.tokens(micro) * layout.dp / total).backward()
        head = nn.Linear(*reversed(inner.embedding.weight.shape), bias=False)
        head.weight = inner.embedding.weight
        if not own.mended:
            # Autograd has added up both uses in the one `.grad` that embedding and head have.
            inner.embedding.weight.grad = inner.embedding.weight.grad + head.weight.grad
        own.record(model)
