"""Primus pull request 1046: a flag that lasts for the step, not for the micro-batch, guards the addition to `main_grad`."""

from __future__ import annotations

from pathlib import Path

from faulty.step import step
from torch import Tensor

from gradassay.harness.cell import Cell


def run(cell: Cell, out: Path) -> None:
    """Gradients accumulated beside `.grad`, then averaged."""
    with step(cell, out) as own:
        model = own.model()
        sums: dict[Tensor, Tensor] = {}

        def bridge(parameter: Tensor) -> None:
            added = parameter in sums
            if own.mended or not added:
                sums[parameter] = sums.get(parameter, 0) + parameter.grad
            parameter.grad = None

        trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
        for parameter in trained:
            parameter.register_post_accumulate_grad_hook(bridge)
        for micro in range(own.layout.accum):
            (own.loss(model, micro) / own.layout.accum).backward()
        for parameter in trained:
            parameter.grad = sums[parameter]
        own.average(model)
        own.record(model)
