"""torchtitan issues 2318 and 2323, torchtune issue 2172: the loss is divided by what all ranks have, and FSDP averages."""

from __future__ import annotations

from pathlib import Path

from faulty.step import step
from torch.distributed.fsdp import fully_shard

from gradassay.harness.cell import Cell


def run(cell: Cell, out: Path) -> None:
    """FSDP2, the loss of a unit divided by the number of units of all ranks."""
    with step(cell, out) as own:
        layout, model = own.layout, own.model()
        for module in (*own.problem.blocks(model), model):
            fully_shard(module)
            if own.mended:
                module.set_force_sum_reduction_for_comms(True)  # gloo has no other way to a factor
                module.set_gradient_divide_factor(1)
        for micro in range(layout.accum):
            model.set_requires_gradient_sync(micro == layout.accum - 1)
            (own.loss(model, micro) / layout.units).backward()
        own.record(model)
