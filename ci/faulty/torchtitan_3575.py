"""torchtitan pull request 3575: gradients are zeroed in the forward-backward call, which is made once a micro-batch."""

from __future__ import annotations

from pathlib import Path

import torch
from faulty.step import step
from torch.distributed.fsdp import fully_shard

from gradassay.harness.cell import Cell


def run(cell: Cell, out: Path) -> None:
    """FSDP2 with accumulation, reduced after every micro-batch."""
    with step(cell, out) as own:
        model = own.model()
        for module in (*own.problem.blocks(model), model):
            fully_shard(module)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for micro in range(own.layout.accum):
            if not own.mended:
                optimizer.zero_grad()
            (own.loss(model, micro) / own.layout.accum).backward()
        own.record(model)
