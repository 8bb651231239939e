"""fairseq issue 4220: experts are divided by the number of ranks and left out of the reduction, their replicas too."""

from __future__ import annotations

from pathlib import Path

import torch.distributed as dist
from faulty.step import step

from gradassay.harness.cell import Cell


def run(cell: Cell, out: Path) -> None:
    """A reduction by hand, with several replicas of every expert."""
    with step(cell, out) as own:
        model = own.model()
        for micro in range(own.layout.accum):
            (own.loss(model, micro) / own.layout.accum).backward()
        experts = own.experts(model)
        own.average(model, leave=experts)
        for name, parameter in model.named_parameters():
            if name in experts:
                if own.mended:
                    dist.all_reduce(parameter.grad, group=own.ranks.edp)
                parameter.grad.div_(own.layout.dp)
        own.record(model)
