"""Kinds of model that train, recognised by themselves."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import nn
from torch.distributed.fsdp import FSDPModule
from torch.nn.parallel import DistributedDataParallel

from gradassay.goldens.errors import UsageError
from gradassay.goldens.layout import Layout
from gradassay.harness.capture.models.fsdp2 import FullySharded
from gradassay.harness.capture.models.megatron_fsdp import MegatronFsdp
from gradassay.harness.capture.models.place import Place
from gradassay.harness.capture.models.plain import Distributed, Plain
from gradassay.harness.capture.models.protocol import Model
from gradassay.harness.capture.moment.reductions import Reductions

_REFUSED: Mapping[str, tuple[str, str]] = {
    "FullyShardedDataParallel": (
        "FSDP1, whose gradients are flat buffers",
        "shard it by torch.distributed.fsdp.fully_shard",
    ),
    "DataParallel": ("one process on several devices", "use DistributedDataParallel, one process a device"),
    "ShardedDataParallel": (
        "fairscale's, whose gradients are on their owners only",
        "use fully_shard or DeepSpeed ZeRO",
    ),
    "PipelineModule": ("DeepSpeed's pipeline", "capture a stage without pipeline parallelism"),
}
"""Class name of a wrapper -> what it is, and what to do."""


def recognise(model: nn.Module, layout: Layout, reductions: Reductions) -> Model:
    """What `model` is on this rank. Raises UsageError for a wrapper that is not known."""
    modules = list(model.modules())
    for module in modules:
        _refuse(module)
    wrapper: DistributedDataParallel | None = None
    inner: Any = model
    while True:
        if isinstance(inner, DistributedDataParallel):
            wrapper, inner = wrapper or inner, inner.module
        elif hasattr(inner, "_orig_mod"):
            inner = inner._orig_mod
        else:
            break
    kinds = {cls.__name__ for cls in type(inner).__mro__}
    if "DeepSpeedEngine" in kinds:
        from gradassay.harness.capture.models.deepspeed import Engine

        return Engine(engine=inner, place=Place.of(layout, ()))
    if "MegatronFSDP" in kinds:
        return MegatronFsdp(wrapper=inner, place=Place.of(layout, ()))
    place = Place.of(layout, inner.parameters())
    if wrapper is not None:
        return Distributed(module=inner, place=place, wrapper=wrapper, reductions=reductions)
    if any(isinstance(module, FSDPModule) for module in modules):
        return FullySharded(module=inner, place=place)
    return Plain(module=inner, place=place)


def _refuse(module: nn.Module) -> None:
    name = type(module).__name__
    if name in _REFUSED:
        what, instead = _REFUSED[name]
        raise UsageError(f"this model is wrapped in {name}: {what}", hint=instead)
    if name == "DistributedDataParallel" and not isinstance(module, DistributedDataParallel):
        raise UsageError(
            f"this model is wrapped in a {name} of {type(module).__module__}, which is not known",
            hint="capture a model that torch's DistributedDataParallel, fully_shard, DeepSpeed or Megatron-FSDP wraps",
        )
