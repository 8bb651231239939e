"""Watches the micro-batches of a step: counts them, and sketches the gradient of each before it is accumulated."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from gradassay.harness.capture.models.protocol import Model
from gradassay.harness.capture.models.tensors import local_pieces
from gradassay.harness.capture.moment.sign import Moment, Sign
from gradassay.harness.capture.piece import Piece
from gradassay.harness.capture.units import UnitSketches


class Watch:
    """Hooks on a model, until they are removed. A micro-batch is a forward pass of `outer` with gradients enabled, outside
    of any backward pass, in which activations may be computed again.

    canonical: from a model's pieces to those that `units` takes. units: None to count only.
    """

    def __init__(
        self,
        outer: nn.Module,
        model: Model,
        *,
        accum: int,
        units: UnitSketches | None,
        canonical: Callable[[list[Piece]], list[Piece]],
    ) -> None:
        self.units = units
        self._accum, self._canonical, self._place = accum, canonical, model.place
        self._micro_steps = self._overlapping = 0
        self._seen = True
        # What the model returns grows while it runs: sharded parameters exist once they were gathered.
        self._handles: list[list[Any]] = [[outer.register_forward_pre_hook(self._begin)]]
        if units is not None:
            self._handles.append(model.watch(self._see))

    def signs(self) -> list[Sign]:
        """That other than `accum` micro-batches ran, or that they cannot be told apart."""
        if self._micro_steps != self._accum:
            return [Sign(moment=Moment.MICRO_STEPS, found=self._micro_steps, expected=self._accum)]
        if self._overlapping:
            return [Sign(moment=Moment.OVERLAPPING, found=self._overlapping, expected=self._accum)]
        return []

    def remove(self) -> None:
        """Takes all hooks off."""
        for handles in self._handles:
            for handle in handles:
                handle.remove()
        self._handles.clear()

    def _begin(self, _module: nn.Module, _inputs: Any) -> None:
        if torch.is_grad_enabled() and torch._C._current_graph_task_id() == -1:
            self._overlapping += self.units is not None and not self._seen
            self._micro_steps += 1
            self._seen = False

    def _see(self, name: str, gradient: Tensor) -> None:
        self._seen = True
        micro, units = self._micro_steps - 1, self.units
        if units is None or not 0 <= micro < self._accum or units.add_whole(name, gradient, micro):
            return
        units.add(self._canonical(local_pieces(name, gradient, self._place)), micro)
