"""Ways to run a step, by name; each is imported when asked for."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING

from gradassay.goldens.errors import UsageError

if TYPE_CHECKING:
    from gradassay.harness.strategies.protocol import Strategy

STRATEGIES: Mapping[str, str] = {
    "single": "single:Single",
    "ddp": "ddp:Ddp",
    "fsdp2": "fsdp2:Fsdp2",
    "hsdp": "hsdp:Hsdp",
    "zero1": "zero1:Zero1",
    "deepspeed-zero0": "deepspeed:zero0",
    "deepspeed-zero1": "deepspeed:zero1",
    "deepspeed-zero2": "deepspeed:zero2",
    "deepspeed-zero3": "deepspeed:zero3",
    "megatron-fsdp": "megatron_fsdp:MegatronFsdp",
    "megatron-ddp": "megatron_core:MegatronDdp",
    "accelerate-ddp": "accelerate:ddp",
    "accelerate-fsdp2": "accelerate:fsdp2",
    "lightning-ddp": "lightning:ddp",
    "lightning-fsdp2": "lightning:fsdp2",
    "torchtitan-fsdp2": "torchtitan:fsdp2",
    "torchtitan-ddp": "torchtitan:ddp",
}
"""Name -> module of this package and class in it."""


def load(name: str) -> Strategy:
    """The strategy of this name. Raises UsageError listing the names known."""
    if name not in STRATEGIES:
        raise UsageError(f"no strategy is called {name!r}", hint=f"known: {', '.join(sorted(STRATEGIES))}")
    module, attribute = STRATEGIES[name].split(":")
    strategy: Strategy = getattr(import_module(f"{__name__}.{module}"), attribute)()
    return strategy
