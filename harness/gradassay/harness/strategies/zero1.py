"""ZeRO stage 1 as torch has it: DDP, and an optimizer whose state is spread over ranks."""

from __future__ import annotations

from collections.abc import Mapping

import torch
import torch.distributed as dist
from torch.distributed.optim import ZeroRedundancyOptimizer

from gradassay.goldens.header import Framework
from gradassay.harness.capture.piece import whole
from gradassay.harness.strategies.ddp import accumulate
from gradassay.harness.strategies.masters import build_masters
from gradassay.harness.strategies.protocol import Outcome, Plan, Task, only_data_parallel


class Zero1:
    """DDP's gradients; each rank updates, and hands over, the parameters whose optimizer state it owns.

    Experts are owned within their edp group where ep > 1. bfloat16 as in `Ddp`.
    """

    name = "zero1"
    options: Mapping[str, tuple[str, ...]] = {}

    def check(self, plan: Plan) -> None:
        """Raises UsageError for tensor, pipeline and context parallelism and for replicas of shards."""
        only_data_parallel(self, plan.layout)

    def run(self, task: Task) -> Outcome:
        """The whole gradients of the parameters that this rank owns."""
        masters = build_masters(task)
        apart = masters.experts if task.layout.ep > 1 else frozenset()
        shared = [parameter for name, parameter in masters.trained.items() if name not in apart]
        own = _owned(shared, task.ranks.world)
        own |= _owned([masters.trained[name] for name in masters.trained if name in apart], task.ranks.edp)
        accumulate(task, masters, every=False)
        pieces = [
            whole(name, parameter.grad, numel=parameter.numel())
            for name, parameter in masters.trained.items()
            if id(parameter) in own
        ]
        return Outcome(pieces=pieces, framework=Framework(name="torch", version=torch.__version__))


def _owned(parameters: list[torch.nn.Parameter], group: dist.ProcessGroup | None) -> set[int]:
    """Identities of the parameters whose optimizer state lives on this rank of `group`."""
    if not parameters:
        return set()
    optimizer = ZeroRedundancyOptimizer(parameters, torch.optim.SGD, process_group=group, lr=1.0)
    return {id(parameter) for part in optimizer.optim.param_groups for parameter in part["params"]}
