"""DistributedDataParallel, with experts spread over ranks beside it."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import nullcontext

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from gradassay.goldens.header import Framework
from gradassay.harness.capture.piece import whole
from gradassay.harness.strategies.masters import Masters, build_masters
from gradassay.harness.strategies.protocol import Outcome, Plan, Task, only_data_parallel, option


class Ddp:
    """Every rank holds all dense parameters and reduces them by DDP's buckets.

    Experts are hidden from DDP where ep > 1 and summed over the ranks that hold them (edp), then divided by dp: an
    expert's local gradient already holds the tokens of its whole ep group. In bfloat16 parameters are float32 masters,
    computed with as bfloat16 copies; gradients are accumulated and reduced in float32.

    Option no_sync: reduce after the last micro-batch only (true), or after every one (false).
    """

    name = "ddp"
    options: Mapping[str, tuple[str, ...]] = {"no_sync": ("true", "false")}

    def check(self, plan: Plan) -> None:
        """Raises UsageError for tensor, pipeline and context parallelism and for replicas of shards."""
        only_data_parallel(self, plan.layout)

    def run(self, task: Task) -> Outcome:
        """The reduced gradients, a copy on every rank that holds the parameter."""
        masters = build_masters(task)
        accumulate(task, masters, every=option(self, task.plan, "no_sync") == "false")
        ranks = task.ranks
        pieces = [
            whole(
                name,
                parameter.grad,
                numel=parameter.numel(),
                replica=ranks.edp_rank if name in masters.experts else ranks.dp_rank,
            )
            for name, parameter in masters.trained.items()
        ]
        return Outcome(pieces=pieces, framework=Framework(name="torch", version=torch.__version__))


def accumulate(task: Task, masters: Masters, *, every: bool) -> None:
    """Leaves the objective's gradient in `.grad` on every rank. every: let DDP reduce after each micro-batch."""
    apart = masters.experts if task.layout.ep > 1 else frozenset()
    ignored = {id(masters.trained[name]) for name in apart}
    DistributedDataParallel._set_params_and_buffers_to_ignore_for_model(
        masters.module, [name for name, parameter in masters.module.named_parameters() if id(parameter) in ignored]
    )
    model = DistributedDataParallel(masters.module, device_ids=[task.device] if task.device.type == "cuda" else None)
    for micro in task.micro_steps():
        last = micro == task.layout.accum - 1
        with nullcontext() if every or last else model.no_sync():
            task.loss(model, micro).backward()
    for name in sorted(apart):
        gradient = masters.trained[name].grad
        if gradient is not None:
            if task.ranks.edp is not None and task.layout.edp > 1:
                dist.all_reduce(gradient, group=task.ranks.edp)
            gradient.div_(task.layout.dp)
