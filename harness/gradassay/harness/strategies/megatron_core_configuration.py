"""A plan in the words of the Megatron-Core release at hand: its configurations and its optimizer."""

from __future__ import annotations

import dataclasses
from importlib import import_module
from typing import Any

import torch

from gradassay.goldens.errors import UsageError
from gradassay.goldens.layout import Layout
from gradassay.harness.problems.protocol import Routed
from gradassay.harness.strategies.megatron_core_moe import settings
from gradassay.harness.strategies.protocol import Strategy, option
from gradassay.harness.strategies.task import Plan

_SWITCHES = ("use_distributed_optimizer", "overlap_grad_reduce", "average_in_collective", "grad_reduce_in_fp32")
_NEWER_SWITCH = "reduce_scatter_with_fp32_accumulation"


def transformer(strategy: Strategy, plan: Plan, version: str, routed: Routed | None) -> Any:
    """The `TransformerConfig` of a routed part, or of a model without any.

    Raises UsageError where the release computes a bfloat16 router otherwise than the problem does.
    """
    made = import_module("megatron.core.transformer.transformer_config").TransformerConfig
    special: dict[str, Any] = {"hidden_size": 1}
    if routed is not None:
        special = settings(
            routed,
            ep=plan.layout.ep,
            dispatcher=option(strategy, plan, "moe_token_dispatcher_type"),
            coefficient=plan.problem.shape.auxiliary,  # type: ignore[attr-defined]
        )
        if "moe_router_dtype" not in _fields(made):
            if plan.dtype != "float32":
                raise UsageError(
                    f"megatron-core {version} computes its router in {plan.dtype}, and the problem in float32",
                    hint="use float32, or a newer release",
                )
            del special["moe_router_dtype"]
    return made(
        num_layers=1,
        num_attention_heads=1,
        params_dtype=getattr(torch, plan.dtype),
        bf16=plan.dtype == "bfloat16",
        calculate_per_token_loss=option(strategy, plan, "calculate_per_token_loss") == "true",
        use_cpu_initialization=True,
        perform_initialization=False,
        gradient_accumulation_fusion=False,
        **special,
    )


def reduction(strategy: Strategy, plan: Plan, version: str) -> Any:
    """The `DistributedDataParallelConfig`. Raises UsageError for a setting that the release lacks."""
    made = import_module("megatron.core.distributed").DistributedDataParallelConfig
    wanted: dict[str, Any] = {key: option(strategy, plan, key) == "true" for key in _SWITCHES}
    if option(strategy, plan, _NEWER_SWITCH) == "true":
        wanted[_NEWER_SWITCH] = True
    if "bucket_size" in plan.options:
        wanted["bucket_size"] = int(plan.options["bucket_size"])
    wanted |= instances(plan.layout)
    if missing := sorted(wanted.keys() - _fields(made)):
        raise UsageError(
            f"megatron-core {version} has no {', '.join(missing)}", hint="leave that out, or use a newer release"
        )
    return made(**wanted)


def instances(layout: Layout) -> dict[str, int]:
    """The setting that makes replicas, where there are any."""
    return {"num_distributed_optimizer_instances": layout.replicate} if layout.replicate > 1 else {}


def optimizer(plan: Plan, wrapped: Any) -> tuple[Any, str]:
    """The package's optimizer of a `DistributedDataParallel` with SGD, and what it is in words.

    The distributed optimizer accepts only Adam, for the sake of its checkpoints: it is made with it, and the torch
    optimizer inside is then exchanged for SGD over the same shards.
    """
    module, spread = import_module("megatron.core.optimizer"), wrapped.ddp_config.use_distributed_optimizer
    configuration = module.OptimizerConfig(
        optimizer="adam" if spread else "sgd",
        lr=plan.learning_rate,
        min_lr=0.0,
        weight_decay=0.0,
        sgd_momentum=0.0,
        clip_grad=0.0,
        bf16=plan.dtype == "bfloat16",
        params_dtype=getattr(torch, plan.dtype),
        use_distributed_optimizer=spread,
    )
    made = module.get_megatron_optimizer(configuration, [wrapped])
    if not spread:
        return made, "megatron-core SGD"
    for part in parts(made):
        if part.optimizer is not None:
            # Shards are views, which torch takes as no parameters; the package sets groups in the same way.
            inner = torch.optim.SGD([torch.zeros(0)], lr=plan.learning_rate)
            inner.param_groups = [{**inner.defaults, **group} for group in part.optimizer.param_groups]
            part.optimizer = inner
    return made, "megatron-core DistributedOptimizer around torch SGD"


def parts(made: Any) -> tuple[Any, ...]:
    """The optimizers of dense and of expert parameters, or the one of both."""
    return tuple(getattr(made, "chained_optimizers", (made,)))


def _fields(made: Any) -> set[str]:
    return {field.name for field in dataclasses.fields(made)}
