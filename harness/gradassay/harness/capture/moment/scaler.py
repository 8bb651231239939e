"""Gradients that a GradScaler has scaled: by how much they are still too large."""

from __future__ import annotations

import gc
from collections.abc import Sequence
from typing import Any

from torch import Tensor
from torch.amp.grad_scaler import OptState
from torch.optim import Optimizer

from gradassay.harness.capture.moment.sign import Moment, Sign


def scale_of(scaler: Any) -> float:
    """What losses are multiplied by; 1 without a scaler."""
    return float(scaler.get_scale()) if scaler is not None and scaler.is_enabled() else 1.0


def remaining(scaler: Any) -> float:
    """What gradients are still to be divided by: the scale, or 1 once `unscale_` has run."""
    return 1.0 if OptState.UNSCALED in _stages(scaler).values() else scale_of(scaler)


def scaler_signs(scaler: Any, parameters: Sequence[Tensor]) -> list[Sign]:
    """That the scaler has unscaled the gradients of some of `parameters` only, or has stepped their optimizer."""
    stages = _stages(scaler)
    if OptState.STEPPED in stages.values():
        return [Sign(moment=Moment.STEPPED)]
    if OptState.UNSCALED not in stages.values():
        return []
    # A scaler knows optimizers by id only, and those that it has not unscaled not at all.
    unscaled = {
        id(parameter)
        for optimizer in gc.get_objects()
        if issubclass(type(optimizer), Optimizer) and stages.get(id(optimizer)) is OptState.UNSCALED
        for group in optimizer.param_groups
        for parameter in group["params"]
    }
    found = sum(id(parameter) in unscaled for parameter in parameters)
    if found == len(parameters):
        return []
    return [Sign(moment=Moment.HALF_UNSCALED, found=found, expected=len(parameters))]


def _stages(scaler: Any) -> dict[int, OptState]:
    """By id of an optimizer, of those that the scaler has unscaled or stepped since its last update."""
    if scaler is None or not scaler.is_enabled():
        return {}
    return {key: state["stage"] for key, state in scaler._per_optimizer_states.items()}
