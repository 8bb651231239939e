"""Notices whether an optimizer has taken a step with the gradients that are there."""

from __future__ import annotations

import weakref
from collections.abc import Iterable
from typing import Any

from torch import Tensor
from torch.optim import Optimizer
from torch.optim.optimizer import register_optimizer_step_post_hook

from gradassay.harness.capture.moment.sign import Moment, Sign

_REMEMBERED = 16
"""Parameters of an optimizer that are looked at; a step takes them all alike."""


class Updates:
    """From its construction on, remembers the gradients that any torch optimizer's latest step has used."""

    def __init__(self) -> None:
        self._used: dict[int, tuple[weakref.ref[Tensor], int]] = {}
        self._handle = register_optimizer_step_post_hook(_hook(self._used))
        weakref.finalize(self, self._handle.remove)

    def signs(self, parameters: Iterable[Tensor]) -> list[Sign]:
        """That the gradients of `parameters` are those of a step, which nothing has been added to since."""
        looked = used = 0
        for parameter in parameters:
            known = self._used.get(id(parameter))
            if known is not None and parameter.grad is not None:
                gradient, version = known
                looked += 1
                used += gradient() is parameter.grad and _version(parameter.grad) == version
        return [Sign(moment=Moment.UPDATED, found=used, expected=looked)] if looked and used == looked else []


def _hook(used: dict[int, tuple[weakref.ref[Tensor], int]]) -> Any:
    def remember(optimizer: Optimizer, _arguments: Any, _keywords: Any) -> None:
        count = 0
        for group in optimizer.param_groups:
            for parameter in group["params"]:
                if count < _REMEMBERED and parameter.grad is not None:
                    used[id(parameter)] = weakref.ref(parameter.grad), _version(parameter.grad)
                    count += 1

    return remember


def _version(gradient: Tensor) -> int:
    """How often a gradient was written to in place."""
    local: Tensor = getattr(gradient, "_local_tensor", gradient)
    return local._version
