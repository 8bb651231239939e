"""ColossalAI commit 9b9b76bdc: an expert's gradient is divided by all its ranks where those with a token for it are meant.

The factor between both, active/dp, differs from expert to expert.
"""

from __future__ import annotations

from pathlib import Path

import torch
import torch.distributed as dist
from faulty.step import step

from gradassay.harness.cell import Cell


def run(cell: Cell, out: Path) -> None:
    """Experts on every rank, averaged by hand; `dp/active` makes up for the ranks that had no token, and is left out."""
    with step(cell, out) as own:
        model = own.model()
        for micro in range(own.layout.accum):
            (own.loss(model, micro) / own.layout.accum).backward()
        experts = own.experts(model)
        active = {}
        for name, parameter in model.named_parameters():
            if name in experts:
                active[name] = parameter.grad.any().to(torch.int64)
                dist.all_reduce(active[name])
        own.average(model)
        for name, parameter in model.named_parameters():
            if name in experts and not own.mended:
                parameter.grad.mul_(active[name] / own.layout.dp)
        own.record(model)
