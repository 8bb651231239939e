"""From a task to a model that Megatron-Core has wrapped, and its optimizer."""

from __future__ import annotations

from dataclasses import replace
from importlib import import_module
from typing import Any

import torch
from torch import nn

from gradassay.goldens.errors import UsageError
from gradassay.goldens.header import Framework
from gradassay.harness.strategies import cuda_stand_in
from gradassay.harness.strategies.megatron_core_configuration import instances, optimizer, reduction, transformer
from gradassay.harness.strategies.megatron_core_device import on_this_device
from gradassay.harness.strategies.megatron_core_moe import RoutedLayer, canonical_names
from gradassay.harness.strategies.megatron_core_pieces import shares
from gradassay.harness.strategies.megatron_core_training import Training, tokens_per_rank
from gradassay.harness.strategies.protocol import Strategy
from gradassay.harness.strategies.task import Task


class Stage(nn.Module):
    """A model as the package's schedule wants one: the only pipeline stage."""

    def __init__(self, model: nn.Module, model_type: Any) -> None:
        super().__init__()
        self.model, self.model_type = model, model_type

    def set_input_tensor(self, _tensor: Any) -> None:
        """Does nothing: no stage comes before this one."""

    def forward(self, *inputs: Any) -> Any:
        """What the model gives."""
        return self.model(*inputs)


def wrap(strategy: Strategy, task: Task) -> Training:
    """A session of the release at hand; collective. Raises UsageError for what it lacks."""
    module = _import(task)
    if task.interference.terms is not None and task.problem.experts:
        raise UsageError(
            f"{strategy.name}: terms of the loss cannot be changed where Megatron-Core's router adds its own",
            hint="inject another fault, or use a dense problem",
        )
    version = module.version
    import_module("megatron.core.parallel_state").initialize_model_parallel(
        expert_model_parallel_size=task.layout.ep, **instances(task.layout)
    )
    with on_this_device():
        model = task.problem.build(
            getattr(torch, task.plan.dtype),
            device=task.device,
            routed=lambda routed: RoutedLayer(routed, task.ranks, transformer(strategy, task.plan, version, routed)),
        )
        names = canonical_names(model)
        task.problem.fill(model, {local: name for local, name in names.items() if local != name})
        wrapped = _wrapped(strategy, task, version, model)
        updates, which = optimizer(task.plan, wrapped)
    named = [(names[local], parameter) for local, parameter in model.named_parameters()]
    if wrapped.config.calculate_per_token_loss:
        task = _observed_by_unit(task)
    task.watch(named)
    return Training(
        task=task,
        model=wrapped,
        optimizer=updates,
        shares=shares(wrapped, {id(parameter): name for name, parameter in named}, task.ranks),
        framework=Framework(name="megatron-core", version=version),
        environment={
            **({"moe": "megatron-core"} if task.problem.experts else {}),
            "optimizer": which,
            **_element_types(wrapped),
            **({"placeholders": list(module.placeholders)} if module.placeholders else {}),
            **cuda_stand_in.facts(),
        },
    )


def _wrapped(strategy: Strategy, task: Task, version: str, model: nn.Module) -> Any:
    """The package's `DistributedDataParallel`, set up as its own training loop does it."""
    distributed = import_module("megatron.core.distributed")
    layers = [module for module in model.modules() if isinstance(module, RoutedLayer)]
    # Layers differ in nothing that anybody but their own modules looks at.
    configuration = layers[0].config if layers else transformer(strategy, task.plan, version, None)
    stage = Stage(model, import_module("megatron.core.enums").ModelType.encoder_or_decoder)
    wrapped = distributed.DistributedDataParallel(configuration, reduction(strategy, task.plan, version), stage)
    configuration.finalize_model_grads_func = distributed.finalize_model_grads
    if wrapped.ddp_config.overlap_grad_reduce:
        configuration.no_sync_func = wrapped.no_sync
    return wrapped


def _observed_by_unit(task: Task) -> Task:
    """The task with an observer that sees local gradients before the package multiplies losses by tokens."""
    observe = task.observer
    if observe is None:
        return task
    larger = tokens_per_rank(task)
    return replace(task, observer=lambda name, rank, micro, gradient: observe(name, rank, micro, gradient / larger))


def _element_types(wrapped: Any) -> dict[str, str]:
    """Element types in which gradients are accumulated and reduced: what makes runs of one dtype profile differ."""
    buffers = (*wrapped.buffers, *wrapped.expert_parallel_buffers)
    found = ", ".join(sorted({str(buffer.grad_dtype).removeprefix("torch.") for buffer in buffers}))
    return {"accumulate_dtype": found, "reduce_dtype": found}


def _import(task: Task) -> Any:
    """The module megatron_core_module. Raises UsageError where it is missing, or would see GPUs that ranks do not use."""
    if task.device.type != "cuda" and not cuda_stand_in.is_needed():
        raise UsageError(
            f"megatron-core runs one rank a GPU; {task.layout.world} ranks share {torch.cuda.device_count()} GPUs",
            hint="use fewer ranks, or hide the GPUs with CUDA_VISIBLE_DEVICES= (empty) to run on CPUs",
        )
    try:
        from gradassay.harness.strategies import megatron_core_module
    except ImportError as error:
        raise UsageError(
            f"megatron.core cannot be imported here ({error})",
            hint="name a release, as in megatron-core==0.16.1, so that its own environment is used",
        ) from error
    return megatron_core_module
