"""ZeRO stage 1 as torch has it: DDP, and an optimizer whose state is spread over ranks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import torch
import torch.distributed as dist
from torch.distributed.optim import ZeroRedundancyOptimizer

from gradassay.harness.strategies.ddp import accumulation
from gradassay.harness.strategies.masters import build_masters
from gradassay.harness.strategies.protocol import only_data_parallel
from gradassay.harness.strategies.replicated import Replicated
from gradassay.harness.strategies.task import Plan, Task


class Zero1:
    """DDP's gradients; each rank updates, and hands over, the parameters whose optimizer state it owns.

    Experts are owned within their edp group where ep > 1. bfloat16 as in `Ddp`.
    """

    name = "zero1"
    options: Mapping[str, tuple[str, ...]] = {}

    def check(self, plan: Plan) -> None:
        """Raises UsageError for tensor, pipeline and context parallelism and for replicas of shards."""
        only_data_parallel(self, plan.layout)

    def start(self, task: Task) -> Replicated:
        """Training where this rank hands over the parameters whose optimizer state it owns."""
        masters = build_masters(task)
        apart = masters.experts if task.layout.ep > 1 else frozenset()
        optimizer = Optimizers(
            [
                _optimizer([p for name, p in masters.trained.items() if name not in apart], task.ranks.world, task),
                _optimizer([p for name, p in masters.trained.items() if name in apart], task.ranks.edp, task),
            ]
        )
        return Replicated(
            task=task,
            masters=masters,
            backward=accumulation(task, masters, every=False),
            held={name: 0 for name, parameter in masters.trained.items() if id(parameter) in optimizer.owned},
            optimizer=optimizer,
        )


class Optimizers:
    """One optimizer for each process group that shares the state of its parameters."""

    def __init__(self, parts: Iterable[ZeroRedundancyOptimizer | None]) -> None:
        self.parts = [part for part in parts if part is not None]

    @property
    def owned(self) -> frozenset[int]:
        """Identities of the parameters whose optimizer state lives on this rank."""
        groups = [group for part in self.parts for group in part.optim.param_groups]
        return frozenset(id(parameter) for group in groups for parameter in group["params"])

    def step(self) -> None:
        """Updates what this rank owns, and takes the rest from its owners."""
        for part in self.parts:
            part.step()


def _optimizer(
    parameters: list[torch.nn.Parameter], group: dist.ProcessGroup | None, task: Task
) -> ZeroRedundancyOptimizer | None:
    if not parameters:
        return None
    return ZeroRedundancyOptimizer(parameters, torch.optim.SGD, process_group=group, lr=task.plan.learning_rate)
