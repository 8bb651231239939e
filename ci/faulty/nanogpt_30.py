"""build-nanogpt pull request 30: the flag is set after the forward pass, in which DDP has decided whether to reduce."""

from __future__ import annotations

from pathlib import Path

from faulty.step import step
from torch.nn.parallel import DistributedDataParallel

from gradassay.harness.cell import Cell


def run(cell: Cell, out: Path) -> None:
    """DDP with accumulation."""
    with step(cell, out) as own:
        model = DistributedDataParallel(own.model())
        for micro in range(own.layout.accum):
            last = micro == own.layout.accum - 1
            if own.mended:
                model.require_backward_grad_sync = last
            loss = own.loss(model, micro) / own.layout.accum
            model.require_backward_grad_sync = last
            loss.backward()
        own.record(model)
