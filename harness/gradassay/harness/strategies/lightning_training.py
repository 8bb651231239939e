"""A Lightning Trainer in training on one rank."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

from gradassay.goldens.header import Framework
from gradassay.harness.capture.piece import Piece
from gradassay.harness.strategies.lightning_turns import Turns
from gradassay.harness.strategies.task import Task
from gradassay.harness.strategies.trainable import pieces


@dataclass(frozen=True, kw_only=True)
class Training:
    """A `Session` that goes through one `Trainer.fit` hook by hook. module: the LightningModule."""

    task: Task
    module: Any
    fit: Turns
    framework: Framework
    convention: Mapping[str, Any] = field(default_factory=dict)
    environment: Mapping[str, Any] = field(default_factory=dict)

    def accumulate(self) -> None:
        """Runs the fit loop up to `on_before_optimizer_step`."""
        self.fit.until("accumulated")

    def gradients(self) -> list[Piece]:
        """This rank's pieces, as `on_before_optimizer_step` finds them."""
        return self._pieces(lambda parameter: parameter.grad)

    def weights(self) -> list[Piece]:
        """This rank's pieces of the parameters that the optimizer updates."""
        return self._pieces(lambda parameter: parameter)

    def clip(self, max_norm: float) -> list[Piece]:
        """The gradients after Lightning's clipping to the norm of its Trainer, which is the plan's."""
        assert max_norm == self.task.plan.max_norm, "a Trainer clips to the norm that it was made with"
        self.fit.until("clipped")
        return self.gradients()

    def update(self) -> None:
        """Runs the fit loop to the end of the window's last batch; the next window clears the gradients itself."""
        self.fit.until("updated")

    def _pieces(self, values: Callable[[Tensor], Tensor | None]) -> list[Piece]:
        return pieces(self.module.model.named_parameters(), values, dp_rank=self.task.ranks.dp_rank)
