"""Megatron-LM merge request 2564: averages over expert ranks are scaled by 1/ep, which is wrong where etp differs from tp.

Two tensor-parallel ranks share a unit and hold half of the experts each (tp 2, etp 1, ep 2, dp 1, so that an expert has
edp = dp*tp/(etp*ep) = 1 rank); the tokens of the first alone count in the loss.
"""

from __future__ import annotations

from pathlib import Path

import torch
import torch.distributed as dist
from faulty.step import step

from gradassay.harness.cell import Cell
from gradassay.harness.parallel import ExpertParallel


def run(cell: Cell, out: Path) -> None:
    """Dense gradients summed over tensor-parallel ranks, experts averaged over their own and scaled."""
    with step(cell, out) as own:
        tp, place, accum = own.layout.tp, dist.get_rank(), own.layout.accum
        dp, ep, edp = own.layout.dp, tp, 1
        model = own.problem.build(torch.float32, experts=ExpertParallel(size=ep, rank=place, group=dist.group.WORLD))
        for micro in range(accum):
            (own.loss(model, micro) * (place == 0) / accum).backward()
        experts = own.experts(model)
        mine = {}
        for name, parameter in model.named_parameters():
            if name in experts:
                mine[name] = parameter.grad * (edp / dp if own.mended else 1 / ep)
            else:
                dist.all_reduce(parameter.grad)
        everyone = [mine] * tp
        dist.all_gather_object(everyone, mine)
        gathered = {name: gradient for rank in everyone for name, gradient in rank.items()}
        gathered |= {name: parameter.grad for name, parameter in model.named_parameters() if name not in experts}
        whole = own.problem.build(torch.float32)
        for name, parameter in whole.named_parameters():
            parameter.grad = gathered[name]
        own.record_gathered(whole)
