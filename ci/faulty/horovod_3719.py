"""horovod pull request 3719: local variables are left out of the reduction, and of its division by the number of ranks.

Experts of which every rank holds its own (ep = dp) are local: their gradients already hold the tokens of all ranks.
"""

from __future__ import annotations

from pathlib import Path

from faulty.step import step

from gradassay.harness.cell import Cell


def run(cell: Cell, out: Path) -> None:
    """A reduction by hand of all parameters but the experts'."""
    with step(cell, out) as own:
        model = own.model()
        for micro in range(own.layout.accum):
            (own.loss(model, micro) / own.layout.accum).backward()
        local = own.experts(model)
        own.average(model, leave=local)
        if own.mended:
            for name, parameter in model.named_parameters():
                if name in local:
                    parameter.grad.div_(own.layout.dp)
        own.record(model)
