"""The model of a task as training libraries take it: one module, whose experts are ordinary parameters."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import torch
from torch import Tensor, nn

from gradassay.goldens.errors import UsageError
from gradassay.goldens.layout import Layout
from gradassay.harness.capture.local import local_piece
from gradassay.harness.capture.piece import Piece
from gradassay.harness.strategies.protocol import Strategy
from gradassay.harness.strategies.task import Plan, Task


def build(task: Task) -> nn.Module:
    """The task's model with float32 parameters (float64 in a float64 run)."""
    return task.problem.build(precision(task.plan), device=task.device)


def precision(plan: Plan) -> torch.dtype:
    """The element type of trained parameters and of sums over ranks: float64 in a float64 run, else float32."""
    return torch.float64 if plan.dtype == "float64" else torch.float32


def pieces(
    named: Iterable[tuple[str, Tensor]], values: Callable[[Tensor], Tensor | None], *, dp_rank: int
) -> list[Piece]:
    """`values` of every trained parameter: of this rank's shard where it is sharded, else the whole as copy `dp_rank`."""
    return [
        local_piece(name, parameter, values(parameter), replica=dp_rank)
        for name, parameter in named
        if parameter.requires_grad
    ]


def without_expert_parallelism(strategy: Strategy, layout: Layout, framework: str) -> None:
    """Raises UsageError for ep above 1, which would test gradassay's own reduction and not the framework's."""
    if layout.ep > 1:
        raise UsageError(
            f"{strategy.name} does not run ep = {layout.ep}: {framework} has no expert parallelism of its own",
            hint="use ep = 1 (experts are then ordinary parameters)",
        )
