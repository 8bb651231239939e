"""Training of a model that `fully_shard` spreads over ranks, with replicas of its shards or without."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import FSDPModule, MixedPrecisionPolicy, fully_shard

from gradassay.goldens.header import Framework
from gradassay.goldens.layout import Layout
from gradassay.harness.capture.local import local_piece
from gradassay.harness.capture.piece import Piece
from gradassay.harness.capture.surroundings import torch_release
from gradassay.harness.capture.unsharded import watch_unsharded
from gradassay.harness.parallel import ExpertParallel
from gradassay.harness.strategies.clipping import clip_pieces
from gradassay.harness.strategies.protocol import Strategy, option
from gradassay.harness.strategies.task import Task

OPTIONS: Mapping[str, tuple[str, ...]] = {"sync": ("last", "every"), "reshard": ("true", "false")}


@dataclass(frozen=True, kw_only=True)
class Sharded:
    """A `Session` of a fully sharded model. averaged: modules that hold the mean over edp ranks where the sum divided by
    dp is due. every: reduce after each micro-batch.
    """

    task: Task
    model: nn.Module
    every: bool
    averaged: tuple[nn.Module, ...]
    optimizer: torch.optim.Optimizer
    framework: Framework = field(default_factory=torch_release)
    convention: Mapping[str, Any] = field(default_factory=dict)
    environment: Mapping[str, Any] = field(default_factory=dict)

    def accumulate(self) -> None:
        """Leaves this rank's shards of the objective's gradient in `.grad`."""
        for micro in self.task.micro_steps():
            last = micro == self.task.layout.accum - 1
            assert isinstance(self.model, FSDPModule)
            self.model.set_requires_gradient_sync(last or self.every)
            self.task.loss(self.model, micro).backward()
        for module in self.averaged:
            for parameter in module.parameters():
                if parameter.grad is not None:
                    parameter.grad.div_(self.task.layout.ep)

    def gradients(self) -> list[Piece]:
        """This rank's shards of the reduced gradients."""
        return self._pieces(lambda parameter: parameter.grad)

    def weights(self) -> list[Piece]:
        """This rank's shards of the parameters."""
        return self._pieces(lambda parameter: parameter)

    def clip(self, max_norm: float) -> list[Piece]:
        """The shards of the gradients after scaling."""
        pieces = self.gradients()
        clip_pieces(pieces, max_norm, self.task.ranks, self.task.device)
        return pieces

    def update(self) -> None:
        """A step of the optimizer on the shards, and no gradients."""
        self.optimizer.step()
        self.optimizer.zero_grad()

    def _pieces(self, values: Callable[[Tensor], Tensor | None]) -> list[Piece]:
        return [
            local_piece(name, parameter, values(parameter))
            for name, parameter in self.model.named_parameters()
            if parameter.requires_grad
        ]


def shard(strategy: Strategy, task: Task) -> Sharded:
    """The task's model, every block, its experts and the root sharded one by one."""
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
    if task.watches:
        watch_unsharded(model, task.watch)
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    return Sharded(
        task=task,
        model=model,
        every=option(strategy, task.plan, "sync") == "every",
        averaged=tuple(experts) if _shards(layout) == 1 else (),
        # Parameters lie on two meshes, which no operation on all of them at once would take.
        optimizer=torch.optim.SGD(trained, lr=task.plan.learning_rate, foreach=False),
    )


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
