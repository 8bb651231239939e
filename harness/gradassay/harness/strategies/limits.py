"""What strategies cannot run, told without importing them; their own `check` says the same, and more of their options."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum


class Replicas(StrEnum):
    """Whether a strategy takes copies of its shards (replicate > 1)."""

    NONE = "none"
    SOME = "some"
    ALWAYS = "always"


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Of one strategy. ranks: whether it runs more than one. experts: whether it takes ep > 1. not_dtypes: profiles that it
    does not run.
    """

    ranks: bool = True
    experts: bool = True
    replicas: Replicas = Replicas.NONE
    not_dtypes: tuple[str, ...] = ()


_WIDE = ("float64",)
LIMITS: Mapping[str, Limits] = {
    "single": Limits(ranks=False),
    "hsdp": Limits(replicas=Replicas.ALWAYS),
    "deepspeed-zero0": Limits(not_dtypes=_WIDE),
    "deepspeed-zero1": Limits(not_dtypes=_WIDE),
    "deepspeed-zero2": Limits(not_dtypes=_WIDE),
    "deepspeed-zero3": Limits(not_dtypes=_WIDE, experts=False),
    "megatron-fsdp": Limits(replicas=Replicas.SOME, not_dtypes=_WIDE),
    "megatron-ddp": Limits(replicas=Replicas.SOME, not_dtypes=_WIDE),
    "accelerate-ddp": Limits(experts=False),
    "accelerate-fsdp2": Limits(experts=False, replicas=Replicas.SOME),
    "lightning-ddp": Limits(experts=False),
    "lightning-fsdp2": Limits(experts=False, not_dtypes=_WIDE),
    "torchtitan-ddp": Limits(experts=False),
    "torchtitan-fsdp2": Limits(replicas=Replicas.SOME),
}
"""By name; a strategy that is not here takes every layout of data-parallel ranks without replicas, in every dtype."""
