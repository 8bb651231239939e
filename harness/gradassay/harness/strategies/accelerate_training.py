"""A model and optimizer that Accelerate prepared, in training on one rank."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

from gradassay.goldens.header import Framework
from gradassay.harness.capture.piece import Piece
from gradassay.harness.strategies.task import Task
from gradassay.harness.strategies.trainable import pieces


@dataclass(frozen=True, kw_only=True)
class Training:
    """A `Session` of the loop that Accelerate documents."""

    task: Task
    accelerator: Any
    model: Any
    optimizer: Any
    framework: Framework
    convention: Mapping[str, Any] = field(default_factory=dict)
    environment: Mapping[str, Any] = field(default_factory=dict)

    def accumulate(self) -> None:
        """Runs the window up to its last backward pass; the optimizer's step for it is left to `update`.

        Accelerate divides each loss by the accumulation steps, which `Task.loss` has done by its weights.
        """
        for micro in self.task.micro_steps():
            with self.accelerator.accumulate(self.model):
                self.accelerator.backward(self.task.loss(self.model, micro) * self.task.layout.accum)
                if not self.accelerator.sync_gradients:
                    self._step()
        assert self.accelerator.sync_gradients, "Accelerate counts its micro-batches otherwise than we do"

    def gradients(self) -> list[Piece]:
        """This rank's pieces while `sync_gradients` is true, before the step."""
        return self._pieces(lambda parameter: parameter.grad)

    def weights(self) -> list[Piece]:
        """This rank's pieces of the parameters, which keep their full precision."""
        return self._pieces(lambda parameter: parameter)

    def clip(self, max_norm: float) -> list[Piece]:
        """The gradients after Accelerate's `clip_grad_norm_`."""
        self.accelerator.clip_grad_norm_(self.model.parameters(), max_norm)
        return self.gradients()

    def update(self) -> None:
        """The step that Accelerate lets through at the end of a window."""
        self._step()

    def _step(self) -> None:
        self.optimizer.step()
        self.optimizer.zero_grad()

    def _pieces(self, values: Callable[[Tensor], Tensor | None]) -> list[Piece]:
        named = self.accelerator.unwrap_model(self.model).named_parameters()
        return pieces(named, values, dp_rank=self.task.ranks.dp_rank)
