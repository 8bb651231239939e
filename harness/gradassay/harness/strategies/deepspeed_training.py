"""A DeepSpeed engine in training on one rank."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from gradassay.goldens.header import Framework
from gradassay.harness.capture.piece import Piece
from gradassay.harness.strategies.deepspeed_engine import engine_moment
from gradassay.harness.strategies.deepspeed_gradients import held, values
from gradassay.harness.strategies.task import Task

if TYPE_CHECKING:
    from torch.nn import Parameter


@dataclass(frozen=True, kw_only=True)
class Training:
    """A `Session` of an engine. named: parameters by canonical name. scaled: whether the engine divides losses by the
    number of micro-batches itself, rather than being told that the caller did (`scale_wrt_gas = False`).
    """

    task: Task
    engine: Any
    named: tuple[tuple[str, Parameter], ...]
    framework: Framework
    scaled: bool = True
    convention: Mapping[str, Any] = field(default_factory=dict)
    environment: Mapping[str, Any] = field(default_factory=dict)

    def accumulate(self) -> None:
        """Runs the window up to its last backward pass; the engine's step for it is left to `update`."""
        accum = self.task.layout.accum
        handles = self.task.watch(self.named)
        for micro in self.task.micro_steps():
            loss = self.task.loss(self.engine, micro)
            if self.scaled:
                self.engine.backward(loss * accum)
            else:
                self.engine.backward(loss, scale_wrt_gas=False)
            if micro + 1 < accum:
                self.engine.step()
        for handle in handles:
            handle.remove()
        objection = engine_moment(self.engine)
        assert objection is None, f"DeepSpeed counts its micro-batches otherwise than we do: {objection}"

    def gradients(self) -> list[Piece]:
        """This rank's pieces, read between the window's last backward pass and its step."""
        return held(self.engine, self.named)

    def weights(self) -> list[Piece]:
        """This rank's pieces of the full-precision parameters."""
        return values(self.engine, self.named)

    def clip(self, max_norm: float) -> None:
        """None: the engine clips within its step, to the norm of its configuration."""

    def update(self) -> None:
        """The engine's step at the boundary."""
        self.engine.step()
