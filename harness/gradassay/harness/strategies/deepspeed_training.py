"""A DeepSpeed engine in training on one rank."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from torch.nn import Parameter

from gradassay.goldens.header import Framework
from gradassay.harness.capture.piece import Piece
from gradassay.harness.strategies.deepspeed_gradients import held, values
from gradassay.harness.strategies.task import Task


@dataclass(frozen=True, kw_only=True)
class Training:
    """A `Session` of an engine. named: parameters by canonical name."""

    task: Task
    stage: int
    engine: Any
    named: tuple[tuple[str, Parameter], ...]
    framework: Framework
    convention: Mapping[str, Any] = field(default_factory=dict)
    environment: Mapping[str, Any] = field(default_factory=dict)

    def accumulate(self) -> None:
        """Runs the window up to its last backward pass; the engine's step for it is left to `update`."""
        accum = self.task.layout.accum
        handles = self.task.watch(self.named)
        for micro in self.task.micro_steps():
            self.engine.backward(self.task.loss(self.engine, micro) * accum)
            if micro + 1 < accum:
                self.engine.step()
        assert self.engine.is_gradient_accumulation_boundary(), (
            "DeepSpeed counts its micro-batches otherwise than we do"
        )
        for handle in handles:
            handle.remove()

    def gradients(self) -> list[Piece]:
        """This rank's pieces, read between the window's last backward pass and its step."""
        return held(self.named, self.task.ranks, self.stage)

    def weights(self) -> list[Piece]:
        """This rank's pieces of the full-precision parameters."""
        return values(self.named, self.task.ranks, self.stage)

    def clip(self, max_norm: float) -> None:
        """None: the engine clips within its step, to the norm of its configuration."""

    def update(self) -> None:
        """The engine's step at the boundary."""
        self.engine.step()
