"""Applies torchtitan's FSDP or DDP to a model, on the meshes of its own `ParallelDims`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import nn
from torch.distributed.fsdp import FSDPModule

from gradassay.goldens.errors import UsageError
from gradassay.harness.capture.unsharded import watch_unsharded
from gradassay.harness.strategies.cuda_stand_in import COLLECTIVES
from gradassay.harness.strategies.task import Task
from gradassay.harness.strategies.trainable import precision


def replicate(library: Any, task: Task, model: nn.Module) -> None:
    """Whole copies that DDP averages; a single rank trains on as it is, as in torchtitan. Raises UsageError where the
    release has no DDP.
    """
    if library.apply_ddp is None:
        raise UsageError(
            f"torchtitan {library.version} has no DDP: it shards every model",
            hint="use torchtitan-fsdp2, with replicate = dp for whole copies, or torchtitan 0.2.2",
        )
    if task.layout.dp > 1:
        dims = _dims(library, task, replicate=task.layout.dp)
        library.apply_ddp(model, dims.get_mesh("dp_replicate"), enable_compile=False)


def shard(library: Any, task: Task, model: nn.Module, *, reshard: str) -> None:
    """Shards, in `replicate` copies, experts over their edp ranks. reshard: torchtitan's policy. Raises UsageError for
    what the release would not shard, or not rightly.
    """
    layout = task.layout
    _check(library, task, tied=vars(model)["enable_weight_tying"], reshard=reshard)
    dims = _dims(library, task, replicate=layout.replicate)
    replicas = ["dp_replicate"] if dims.dp_replicate_enabled else []
    own = {} if library.newest else {"gradient_divide_factor": dims.fsdp_gradient_divide_factor}
    library.apply_fsdp(
        model,
        dims.get_mesh([*replicas, "fsdp"]),
        param_dtype=torch.bfloat16 if task.plan.dtype == "bfloat16" else precision(task.plan),
        reduce_dtype=precision(task.plan),
        pp_enabled=False,
        reshard_after_forward_policy=reshard,
        ep_degree=layout.ep,
        edp_mesh=dims.get_mesh([*replicas, "efsdp"]) if layout.ep > 1 else None,
        **own,
    )
    if task.device.type == "cpu":
        for module in _with_factors(library, task, model):
            module.set_force_sum_reduction_for_comms(True)
    if task.watches:
        watch_unsharded(model, task.watch)


def facts(library: Any, task: Task, model: nn.Module) -> Mapping[str, Any]:
    """For the environment of a record: what stands in for CUDA on CPUs."""
    if task.device.type != "cpu":
        return {}
    parts, hidden = ["torchtitan: meshes on cpu", *library.placeholders], []
    if _with_factors(library, task, model):
        parts.append("sums before factors")
        hidden.append(COLLECTIVES.hides)
    return {"stand_in": {"for": "cuda", "parts": parts, "cannot_show": hidden}}


def _dims(library: Any, task: Task, *, replicate: int) -> Any:
    # torchtitan puts meshes on CUDA where it finds no accelerator.
    if task.device.type == "cpu":
        vars(library.parallel_dims)["device_type"] = "cpu"
    layout = task.layout
    own = {"spmd_backend": "partial_dtensor"} if library.newest else {"etp": 1}
    return library.parallel_dims.ParallelDims(
        dp_replicate=replicate,
        dp_shard=layout.dp // replicate,
        cp=1,
        tp=1,
        pp=1,
        ep=layout.ep,
        world_size=layout.world,
        **own,
    )


def _check(library: Any, task: Task, *, tied: bool, reshard: str) -> None:
    if tied and (reshard == "always" or not library.newest):
        raise UsageError(
            f"torchtitan {library.version} frees the embedding of {task.problem.name}, which is its head as well, after "
            f"the embedding's own forward pass",
            hint="use torchtitan 0.3.0 with reshard = default, or a problem whose weights are not tied",
        )
    if not library.newest and task.layout.dp == task.layout.replicate:
        raise UsageError(
            f"torchtitan {library.version} does not shard over dp/replicate = 1 ranks",
            hint="use more ranks, torchtitan-ddp, or torchtitan 0.3.0",
        )


def _with_factors(library: Any, task: Task, model: nn.Module) -> list[FSDPModule]:
    """What torchtitan set a divide factor of. gloo lacks nccl's product and sum in one operation, so that these sum first.

    Not where there is but one shard: nothing is reduced over it, and torch 2.13 applies the factor of a forced sum twice.
    """
    sharded: list[FSDPModule] = [module for module in model.modules() if isinstance(module, FSDPModule)]
    if not library.divides:
        return sharded
    layout = task.layout
    if layout.ep == 1 or layout.edp == layout.replicate:
        return []
    experts = {id(module) for module in task.problem.expert_modules(model)}
    return [module for module in sharded if id(module) in experts]
