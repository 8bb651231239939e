"""Training of a model whose ranks hold whole parameters."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from torch import Tensor

from gradassay.goldens.header import Framework
from gradassay.harness.capture.piece import Piece, whole
from gradassay.harness.capture.surroundings import torch_release
from gradassay.harness.strategies.clipping import clip_pieces
from gradassay.harness.strategies.masters import Masters
from gradassay.harness.strategies.task import Task


class Optimizer(Protocol):
    """What updates parameters."""

    def step(self) -> Any:
        """Updates the parameters by their gradients."""


@dataclass(frozen=True, kw_only=True)
class Replicated:
    """A `Session` of masters. backward: runs a window. held: canonical names of what this rank hands over, with the
    number of its copy.
    """

    task: Task
    masters: Masters
    backward: Callable[[], None]
    held: Mapping[str, int]
    optimizer: Optimizer
    framework: Framework = field(default_factory=torch_release)
    convention: Mapping[str, Any] = field(default_factory=dict)
    environment: Mapping[str, Any] = field(default_factory=dict)

    def accumulate(self) -> None:
        """Leaves the objective's gradient in `.grad`."""
        self.backward()

    def gradients(self) -> list[Piece]:
        """The whole gradients of what this rank hands over."""
        return self._pieces(lambda parameter: parameter.grad)

    def weights(self) -> list[Piece]:
        """The masters themselves."""
        return self._pieces(lambda parameter: parameter)

    def clip(self, max_norm: float) -> list[Piece]:
        """The gradients after scaling; those of parameters that another rank hands over are scaled as well."""
        mine = self.gradients()
        others = [
            whole(name, parameter.grad, numel=parameter.numel(), replica=1)
            for name, parameter in self.masters.trained.items()
            if name not in self.held
        ]
        clip_pieces([*mine, *others], max_norm, self.task.ranks, self.task.device)
        return mine

    def update(self) -> None:
        """A step of the optimizer, and no gradients."""
        self.optimizer.step()
        for parameter in self.masters.trained.values():
            parameter.grad = None

    def _pieces(self, values: Callable[[Tensor], Tensor | None]) -> list[Piece]:
        return [
            whole(name, values(self.masters.trained[name]), numel=self.masters.trained[name].numel(), replica=replica)
            for name, replica in self.held.items()
        ]
