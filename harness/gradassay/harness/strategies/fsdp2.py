"""Fully sharded data parallel (`fully_shard`), experts sharded over the ranks that hold the same ones."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FSDPModule, MixedPrecisionPolicy, fully_shard

from gradassay.goldens.header import Framework
from gradassay.goldens.layout import Layout
from gradassay.harness.capture.local import local_piece
from gradassay.harness.parallel import ExpertParallel
from gradassay.harness.strategies.protocol import Outcome, Plan, Strategy, Task, only_data_parallel, option

if TYPE_CHECKING:
    from torch.distributed.device_mesh import DeviceMesh

OPTIONS: Mapping[str, tuple[str, ...]] = {"sync": ("last", "every"), "reshard": ("true", "false")}


class Fsdp2:
    """Every block, its experts and the root are sharded one by one along the first dimension.

    Where ep > 1 experts are sharded over their edp group only, with the divide factor set to dp. In bfloat16 parameters
    are float32 shards, gathered as bfloat16 and reduced in float32.

    Options: sync, reduce after the last micro-batch or after every one; reshard, free the gathered parameters after
    the forward pass or keep them until the backward pass.
    """

    name = "fsdp2"
    options = OPTIONS

    def check(self, plan: Plan) -> None:
        """Raises UsageError for tensor, pipeline and context parallelism and for replicas of shards."""
        only_data_parallel(self, plan.layout)

    def run(self, task: Task) -> Outcome:
        """This rank's shards of the reduced gradients."""
        return run_sharded(self, task)


def run_sharded(strategy: Strategy, task: Task) -> Outcome:
    """One step of a fully sharded model, with replicas of its shards where the layout has them."""
    layout = task.layout
    model = task.problem.build(
        torch.float64 if task.plan.dtype == "float64" else torch.float32,
        device=task.device,
        experts=ExpertParallel.of(task.ranks),
    )
    policy = MixedPrecisionPolicy()
    if task.plan.dtype == "bfloat16":
        policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    reshard = option(strategy, task.plan, "reshard") == "true"
    dense, spread = _meshes(layout, task.device.type)
    experts = task.problem.expert_modules(model) if layout.ep > 1 else ()
    for module in experts:
        _shard_experts(module, layout, spread, policy, reshard)
    for module in (*task.problem.blocks(model), model):
        fully_shard(module, mesh=dense, mp_policy=policy, reshard_after_forward=reshard)
    if task.interference.gradient is not None:
        _watch_unsharded(task, model)
    assert isinstance(model, FSDPModule)
    for micro in task.micro_steps():
        last = micro == layout.accum - 1
        model.set_requires_gradient_sync(last or option(strategy, task.plan, "sync") == "every")
        task.loss(model, micro).backward()
    if _shards(layout) == 1:
        for module in experts:
            for parameter in module.parameters():
                if parameter.grad is not None:
                    parameter.grad.div_(layout.ep)
    pieces = [local_piece(name, parameter) for name, parameter in model.named_parameters() if parameter.requires_grad]
    return Outcome(pieces=pieces, framework=Framework(name="torch", version=torch.__version__))


def _shards(layout: Layout) -> int:
    """Over how many ranks one copy of an expert is sharded."""
    return layout.edp // layout.replicate


def _meshes(layout: Layout, device: str) -> tuple[DeviceMesh, DeviceMesh]:
    """Meshes of dense and of expert parameters: one axis of shards, before it one of replicas where there are any."""
    shape = (layout.replicate, _shards(layout), layout.ep)
    mesh = init_device_mesh(device, shape, mesh_dim_names=("replicate", "edp", "ep"))
    if layout.replicate == 1:
        return init_device_mesh(device, (layout.dp,), mesh_dim_names=("dp",)), mesh["edp"]
    dense = init_device_mesh(
        device, (layout.replicate, layout.dp // layout.replicate), mesh_dim_names=("replicate", "dp")
    )
    return dense, mesh["replicate", "edp"]


def _shard_experts(
    module: nn.Module, layout: Layout, mesh: DeviceMesh, policy: MixedPrecisionPolicy, reshard: bool
) -> None:
    """The sum over an edp group, divided by dp.

    gloo needs sums to be forced for that; on an axis of one shard torch 2.13 then applies the factor twice. There the
    mean over edp is kept, and divided by ep afterwards by hand.
    """
    fully_shard(module, mesh=mesh, mp_policy=policy, reshard_after_forward=reshard)
    assert isinstance(module, FSDPModule)
    if _shards(layout) > 1:
        module.set_force_sum_reduction_for_comms(True)
        module.set_gradient_divide_factor(float(layout.dp))


def _watch_unsharded(task: Task, model: nn.Module) -> None:
    """Hooks the parameters that autograd sees: they exist after FSDP's own pre-forward hook, and stay the same."""
    watched: dict[int, Tensor] = {}

    def watch(module: nn.Module, _inputs: Any) -> None:
        for local, parameter in module.named_parameters():
            if not hasattr(parameter, "placements") and id(parameter) not in watched:
                watched[id(parameter)] = parameter
                prefix = names[id(module)]
                task.watch([(f"{prefix}.{local}" if prefix else local, parameter)])

    names = {id(module): name for name, module in model.named_modules()}
    for module in model.modules():
        if isinstance(module, FSDPModule):
            module.register_forward_pre_hook(watch)
