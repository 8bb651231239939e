"""DistributedDataParallel, with experts spread over ranks beside it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import nullcontext

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from gradassay.harness.strategies.masters import Masters, build_masters
from gradassay.harness.strategies.protocol import only_data_parallel, option
from gradassay.harness.strategies.replicated import Replicated
from gradassay.harness.strategies.task import Plan, Task

_DEFAULT = "default"


class Ddp:
    """Every rank holds all dense parameters and reduces them by DDP's buckets.

    Experts are hidden from DDP where ep > 1 and summed over the ranks that hold them (edp), then divided by dp: an
    expert's local gradient already holds the tokens of its whole ep group. In bfloat16 parameters are float32 masters,
    computed with as bfloat16 copies; gradients are accumulated and reduced in float32.

    Options: no_sync, reduce after the last micro-batch only (true), or after every one (false); bucket_cap_mb, the largest
    bucket in MiB, other sizes of which add ranks up in other orders.
    """

    name = "ddp"
    options: Mapping[str, tuple[str, ...]] = {
        "no_sync": ("true", "false"),
        "bucket_cap_mb": (_DEFAULT, "0.01", "0.05"),
    }

    def check(self, plan: Plan) -> None:
        """Raises UsageError for tensor, pipeline and context parallelism and for replicas of shards."""
        only_data_parallel(self, plan.layout)

    def start(self, task: Task) -> Replicated:
        """Training on copies of all dense parameters."""
        masters, ranks = build_masters(task), task.ranks
        no_sync, cap = (option(self, task.plan, key) for key in ("no_sync", "bucket_cap_mb"))
        return Replicated(
            task=task,
            masters=masters,
            backward=accumulation(
                task, masters, every=no_sync == "false", bucket_cap_mb=None if cap == _DEFAULT else float(cap)
            ),
            held={name: ranks.edp_rank if name in masters.experts else ranks.dp_rank for name in masters.trained},
            optimizer=torch.optim.SGD(masters.trained.values(), lr=task.plan.learning_rate),
        )


def accumulation(
    task: Task, masters: Masters, *, every: bool, bucket_cap_mb: float | None = None
) -> Callable[[], None]:
    """What leaves a window's gradient in `.grad` on every rank. every: let DDP reduce after each micro-batch.

    bucket_cap_mb: the largest bucket in MiB; None leaves it to DDP.
    """
    apart = masters.experts if task.layout.ep > 1 else frozenset()
    ignored = {id(masters.trained[name]) for name in apart}
    DistributedDataParallel._set_params_and_buffers_to_ignore_for_model(
        masters.module, [name for name, parameter in masters.module.named_parameters() if id(parameter) in ignored]
    )
    model = DistributedDataParallel(
        masters.module,
        device_ids=[task.device] if task.device.type == "cuda" else None,
        bucket_cap_mb=bucket_cap_mb,
    )

    def backward() -> None:
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

    return backward
