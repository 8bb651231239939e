"""A model in training under Megatron-FSDP on one rank, and the reading of its pieces without gathering any."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

from gradassay.goldens.header import Framework
from gradassay.harness.capture.piece import Piece
from gradassay.harness.strategies.clipping import clip_pieces
from gradassay.harness.strategies.megatron_fsdp_slices import held
from gradassay.harness.strategies.task import Task


@dataclass(frozen=True, kw_only=True)
class Training:
    """A `Session` of a `MegatronFSDP` model and an optimizer that `fully_shard_optimizer` has extended."""

    task: Task
    model: Any
    optimizer: Any
    framework: Framework
    convention: Mapping[str, Any] = field(default_factory=dict)
    environment: Mapping[str, Any] = field(default_factory=dict)

    def accumulate(self) -> None:
        """Runs the window; where the package does not synchronize every micro-batch by itself, it is told the last one."""
        by_itself = self.model.model_auto_sync
        for micro in self.task.micro_steps():
            if not by_itself:
                self.model.is_last_microbatch = micro + 1 == self.task.layout.accum
            self.task.loss(self.model, micro).backward()
        if not by_itself:
            self.model.finish_grad_sync()

    def gradients(self) -> list[Piece]:
        """This rank's slices of what the package hands to its optimizer."""
        return self._pieces(lambda parameter: parameter.grad)

    def weights(self) -> list[Piece]:
        """This rank's slices of the optimizer's parameters, in float32 unless the options say otherwise."""
        return self._pieces(lambda parameter: parameter.data)

    def clip(self, max_norm: float) -> list[Piece]:
        """The slices after scaling by the total norm; the package has no clipping of its own."""
        pieces = self.gradients()
        clip_pieces(pieces, max_norm, self.task.ranks, self.task.device)
        return pieces

    def update(self) -> None:
        """The optimizer's step, which also installs the new weights in the model, and empty gradient buffers."""
        self.optimizer.step(sync_grad_before_optimizer_step=False)
        self.optimizer.zero_grad()

    def _pieces(self, values: Callable[[Any], Tensor | None]) -> list[Piece]:
        ranks = self.task.ranks
        return held(
            self.model,
            values,
            self.task.layout,
            dp_rank=ranks.dp_rank,
            copy=lambda expert: ranks.edp_rank if expert else ranks.dp_rank,
        )
