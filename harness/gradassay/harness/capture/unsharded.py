"""Reaches the whole parameters that autograd sees in a model whose parameters are sharded."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from torch import Tensor, nn
from torch.distributed.fsdp import FSDPModule


def watch_unsharded(model: nn.Module, watch: Callable[[Iterable[tuple[str, Tensor]]], Any]) -> None:
    """Calls `watch` with the names in `model` and the tensors of what `fully_shard` unsharded, once each.

    They exist after FSDP's own pre-forward hook, and stay the same from then on; what their hooks see is the gradient of
    one backward pass, before it is accumulated or reduced.
    """
    watched: dict[int, Tensor] = {}
    names = {id(module): name for name, module in model.named_modules()}

    def look(module: nn.Module, _inputs: Any) -> None:
        for local, parameter in module.named_parameters():
            if not hasattr(parameter, "placements") and id(parameter) not in watched:
                watched[id(parameter)] = parameter
                prefix = names[id(module)]
                watch([(f"{prefix}.{local}" if prefix else local, parameter)])

    for module in model.modules():
        if isinstance(module, FSDPModule):
            module.register_forward_pre_hook(look)
