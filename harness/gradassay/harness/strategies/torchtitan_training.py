"""A model that torchtitan made parallel, in training on one rank."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor, nn
from torch.optim import Optimizer

from gradassay.goldens.header import Framework
from gradassay.harness.capture.piece import Piece
from gradassay.harness.strategies.task import Task
from gradassay.harness.strategies.trainable import pieces


@dataclass(frozen=True, kw_only=True)
class Training:
    """A `Session` of the loop of torchtitan's Trainer, which reduces after every micro-batch.

    scale: what each loss is multiplied by before its backward pass. context: what a forward and backward pass runs in.
    clipping: torchtitan's `clip_grad_norm_`.
    """

    task: Task
    model: nn.Module
    optimizer: Optimizer
    scale: float
    context: Callable[[], AbstractContextManager[Any]]
    clipping: Callable[..., Any]
    framework: Framework
    convention: Mapping[str, Any] = field(default_factory=dict)
    environment: Mapping[str, Any] = field(default_factory=dict)

    def accumulate(self) -> None:
        """Leaves this rank's part of the reduced gradient in `.grad`."""
        for micro in self.task.micro_steps():
            with self.context():
                loss = self.task.loss(self.model, micro) * self.scale
                loss.backward()

    def gradients(self) -> list[Piece]:
        """This rank's pieces of what the Trainer would clip."""
        return self._pieces(lambda parameter: parameter.grad)

    def weights(self) -> list[Piece]:
        """This rank's pieces of the parameters, which keep their full precision."""
        return self._pieces(lambda parameter: parameter)

    def clip(self, max_norm: float) -> list[Piece]:
        """The gradients after torchtitan's clipping, called as its Trainer does."""
        self.clipping(list(self.model.parameters()), max_norm, foreach=True, pp_mesh=None, ep_enabled=False)
        return self.gradients()

    def update(self) -> None:
        """A step of the optimizer, and no gradients."""
        self.optimizer.step()
        self.optimizer.zero_grad()

    def _pieces(self, values: Callable[[Tensor], Tensor | None]) -> list[Piece]:
        return pieces(self.model.named_parameters(), values, dp_rank=self.task.ranks.dp_rank)
