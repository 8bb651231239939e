"""Automodel pull request 1412: the main loss is weighed so that FSDP's average gives it back, the auxiliary loss is not."""

from __future__ import annotations

from pathlib import Path

from faulty.step import step
from torch.distributed.fsdp import fully_shard

from gradassay.harness.cell import Cell


def run(cell: Cell, out: Path) -> None:
    """FSDP2, the losses of a unit divided by what all ranks have."""
    with step(cell, out) as own:
        layout, model = own.layout, own.model()
        for module in (*own.problem.blocks(model), model):
            fully_shard(module)
        for micro in range(layout.accum):
            model.set_requires_gradient_sync(micro == layout.accum - 1)
            losses = own.problem.losses(model, own.batch(micro))
            auxiliary = losses["aux"] * layout.dp if own.mended else losses["aux"]
            ((losses["main"] * layout.dp + auxiliary) / layout.units).backward()
        own.record(model)
