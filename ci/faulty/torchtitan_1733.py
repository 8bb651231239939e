"""torchtitan issue 1733: a pipeline schedule divides `.grad` by its micro-batches at the end of every call of `step`.

Several calls before the optimizer steps divide what earlier calls have left as often again. torch does so by default.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from faulty.step import Step, step
from torch import Tensor, nn
from torch.distributed.pipelining import PipelineStage, ScheduleGPipe
from torch.nn import functional

from gradassay.harness.cell import Cell

CHUNKS = 4
"""Pipeline micro-batches a call; one sequence each."""


class Part(nn.Module):
    """The first or the last part of a dense model, under the names that its parameters have in the whole."""

    def __init__(self, whole: Any, stage: int, stages: int) -> None:
        super().__init__()
        each = len(whole.layers) // stages
        mine = range(stage * each, (stage + 1) * each)
        self.layers = nn.ModuleDict({str(number): whole.layers[number] for number in mine})
        self.embedding, self.position = (whole.embedding, whole.position) if stage == 0 else (None, None)
        self.norm, self.head = (whole.norm, whole.head) if stage == stages - 1 else (None, None)

    def forward(self, hidden: Tensor) -> Tensor:
        """Token ids or hidden states to hidden states or logits."""
        if self.embedding is not None:
            hidden = self.embedding(hidden) + self.position(torch.arange(hidden.shape[1]))
        for layer in self.layers.values():
            hidden, _ = layer(hidden)
        return hidden if self.head is None else self.head(self.norm(hidden))


def run(cell: Cell, out: Path) -> None:
    """GPipe over pp ranks, one call a micro step."""
    with step(cell, out) as own:
        stage, accum, whole = dist.get_rank(), own.layout.accum, own.model()
        part = Part(whole, stage, own.layout.pp)
        scale = 1 if not own.mended else CHUNKS

        def loss(logits: Tensor, targets: Tensor) -> Tensor:
            return functional.cross_entropy(logits.flatten(0, 1), targets.flatten()) / (accum * scale)

        schedule = ScheduleGPipe(
            PipelineStage(part, stage, own.layout.pp, torch.device("cpu")),
            n_microbatches=CHUNKS,
            loss_fn=loss,
            scale_grads=not own.mended,
        )
        for micro in range(accum):
            batch = own.batch(micro)
            inputs = (batch.inputs,) if stage == 0 else ()
            schedule.step(*inputs, target=batch.targets if stage == own.layout.pp - 1 else None)
        gathered = _gathered(own, part)
        for name, parameter in whole.named_parameters():
            parameter.grad = gathered.get(name)
        own.record_gathered(whole)


def _gathered(own: Step, part: nn.Module) -> dict[str, Tensor]:
    """The gradients of all stages, on rank 0."""
    gradients = {name: parameter.grad for name, parameter in part.named_parameters() if parameter.grad is not None}
    everyone: list[dict[str, Tensor] | None] = [None] * own.layout.pp
    dist.all_gather_object(everyone, gradients)
    return {name: gradient for stage in everyone if stage for name, gradient in stage.items()}
