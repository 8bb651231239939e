"""From a task to a model that Megatron-FSDP has wrapped, with whatever arguments the release at hand knows."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

import torch
from torch.distributed.device_mesh import init_device_mesh

from gradassay.goldens.errors import UsageError
from gradassay.goldens.header import Framework
from gradassay.harness.parallel import ExpertParallel
from gradassay.harness.strategies import cuda_stand_in
from gradassay.harness.strategies.megatron_fsdp_training import Training
from gradassay.harness.strategies.protocol import Strategy
from gradassay.harness.strategies.task import Plan, Task

_OUTER, _INNER, _TENSOR = "dp_outer", "dp_shard", "tp"
_CONFIGURED = "gradient_reduce_div_fusion"
"""A setting of the DDP configuration that `fully_shard_model` has no argument for."""


def wrap(strategy: Strategy, task: Task) -> Training:
    """The task's model with every block an FSDP unit, its optimizer, and hooks where somebody watches; collective."""
    module = _import(task)
    known = inspect.signature(module.fully_shard_model).parameters
    version = str(module.__version__).split("+")[0]
    settings = _settings(strategy, task.plan, module, known, version)
    if task.layout.ep > 1 and "expt_device_mesh" not in known:
        raise UsageError(
            f"megatron-fsdp {version} has no expert parallelism (no expert mesh); the layout has ep = {task.layout.ep}",
            hint="use ep = 1 (experts are then ordinary parameters), or megatron-fsdp 0.3.0 or newer",
        )
    if task.layout.ep > 1 and task.layout.replicate > 1 and "hybrid_fsdp_expt_group" not in known:
        raise UsageError(
            f"megatron-fsdp {version} has no replicas of expert shards; the layout is {task.layout}",
            hint="use ep = 1 or replicate = 1, or megatron-fsdp 0.4.0 or newer",
        )
    model = task.problem.build(
        getattr(torch, task.plan.dtype), device=task.device, experts=ExpertParallel.of(task.ranks)
    )
    fused = settings.pop(_CONFIGURED, None)
    wrapped = module.fully_shard_model(
        module=model,
        device=task.device,
        fsdp_unit_modules=list({type(block) for block in task.problem.blocks(model)}),
        **_meshes(task, known, settings),
        **settings,
    )
    if fused is not None:
        wrapped.ddp_config.gradient_reduce_div_fusion = fused
    optimizer = torch.optim.SGD(wrapped.parameters(), lr=task.plan.learning_rate, foreach=False)
    module.fully_shard_optimizer(optimizer)
    task.watch(wrapped.raw_param.items())
    return Training(
        task=task,
        model=wrapped,
        optimizer=optimizer,
        framework=Framework(name="megatron-fsdp", version=version),
        convention={"all": "dp"} if settings.get("calculate_per_token_loss") else {},
        environment={**cuda_stand_in.facts(), **_element_types(wrapped, settings)},
    )


def _import(task: Task) -> Any:
    """The megatron_fsdp module. Raises UsageError where it is missing, or where it would see GPUs that ranks do not use."""
    if task.device.type != "cuda" and not cuda_stand_in.is_needed():
        raise UsageError(
            f"megatron-fsdp runs one rank a GPU; {task.layout.world} ranks share {torch.cuda.device_count()} GPUs",
            hint="use fewer ranks, or hide the GPUs with CUDA_VISIBLE_DEVICES= (empty) to run on CPUs",
        )
    try:
        from gradassay.harness.strategies.megatron_fsdp_module import megatron_fsdp
    except ModuleNotFoundError as error:
        raise UsageError(
            f"megatron-fsdp cannot be imported ({error})",
            hint="name an installed release, as in --framework megatron-fsdp==0.6.1",
        ) from error
    return megatron_fsdp


def _settings(strategy: Strategy, plan: Plan, module: Any, known: Mapping[str, Any], version: str) -> dict[str, Any]:
    """Arguments of `fully_shard_model` and `_CONFIGURED`, only what the plan sets."""
    policy: Any = getattr(module, "MixedPrecisionPolicy", None)
    of_policy = inspect.signature(policy).parameters if policy is not None else {}
    settings: dict[str, Any] = {}
    precision: dict[str, Any] = {}
    for key, text in plan.options.items():
        if key in known or key == _CONFIGURED:
            settings[key] = text == "true" if text in ("true", "false") else text
        elif key in of_policy:
            precision[key] = None if text == "none" else getattr(torch, text)
        else:
            raise UsageError(
                f"megatron-fsdp {version} has no option {key!r}",
                hint=f"it has {', '.join(name for name in strategy.options if name in {*known, *of_policy, _CONFIGURED})}",
            )
    if precision:
        settings["mixed_precision_policy"] = policy(**precision)
    if settings.get("average_in_collective") and "expt_device_mesh" not in known:
        raise UsageError(
            f"megatron-fsdp {version} cannot average in the collective: it asks for the size of an expert group that it "
            "does not have",
            hint="leave average_in_collective at false, or use megatron-fsdp 0.3.0 or newer",
        )
    return settings


def _meshes(task: Task, known: Mapping[str, Any], settings: Mapping[str, Any]) -> dict[str, Any]:
    """Meshes by argument. An expert mesh is there for experts, and for averages in the collective, which ask for it."""
    layout, ranks, device = task.layout, task.ranks, task.device.type
    outer = layout.replicate > 1
    found: dict[str, Any] = {"dp_shard_dim": _INNER, "tp_dim": _TENSOR}
    names = ((_OUTER,) if outer else ()) + (_INNER, _TENSOR)
    shards = layout.dp // layout.replicate
    found["device_mesh"] = init_device_mesh(
        device, (layout.replicate, shards, 1) if outer else (shards, 1), mesh_dim_names=names
    )
    if outer:
        found |= {"dp_outer_dim": _OUTER, "hybrid_fsdp_group": ranks.world}
    if "expt_device_mesh" in known and (task.problem.experts or settings.get("average_in_collective")):
        shape = (layout.edp // layout.replicate, layout.ep, 1)
        found["expt_device_mesh"] = init_device_mesh(
            device,
            (layout.replicate, *shape) if outer else shape,
            mesh_dim_names=((_OUTER,) if outer else ()) + (_INNER, "ep", _TENSOR),
        )
        if outer and "hybrid_fsdp_expt_group" in known:
            found["hybrid_fsdp_expt_group"] = ranks.world if layout.ep == 1 else ranks.edp
    return found


def _element_types(wrapped: Any, settings: Mapping[str, Any]) -> dict[str, str]:
    """Element types in which gradients are accumulated and reduced: what makes runs of one dtype profile differ."""
    accumulated = {
        str(group.main_grad_buffer.dtype).removeprefix("torch.")
        for group in wrapped.param_and_grad_buffer.parameter_groups
        if group.main_grad_buffer is not None
    }
    policy = settings.get("mixed_precision_policy")
    reduced = None if policy is None else policy.grad_comm_dtype
    accumulates = ", ".join(sorted(accumulated))
    return {
        "accumulate_dtype": accumulates,
        "reduce_dtype": accumulates if reduced is None else str(reduced).removeprefix("torch."),
    }
