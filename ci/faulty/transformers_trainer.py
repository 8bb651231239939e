"""transformers issues 35203 and 35207: the Trainer divides the loss of a model without loss arguments by nothing.

Runs the Trainer of a release, unpatched, on DDP.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import torch
from faulty.step import Step, step
from torch import Tensor, nn
from torch.utils.data import Dataset, SequentialSampler

from gradassay.harness.cell import Cell


class Units(Dataset[dict[str, Tensor]]):
    """The units of a layout in their order, which ranks take by turns."""

    def __init__(self, own: Step) -> None:
        self.own = own

    def __len__(self) -> int:
        return self.own.layout.units

    def __getitem__(self, unit: int) -> dict[str, Tensor]:
        batch = self.own.problem.batch(unit)
        return {"inputs": batch.inputs, "labels": batch.targets}


class Model(nn.Module):
    """A model that gives its loss, and takes no arguments for it."""

    def __init__(self, own: Step) -> None:
        super().__init__()
        self.own, self.inner = own, own.model()

    def forward(self, inputs: Tensor, labels: Tensor) -> dict[str, Tensor]:
        """The mean loss of a unit."""
        from gradassay.harness.problems.protocol import Batch

        losses = self.own.problem.losses(self.inner, Batch(inputs=inputs, targets=labels))
        return {"loss": torch.stack(list(losses.values())).sum()}


def run(cell: Cell, out: Path) -> None:
    """One step of the Trainer, recorded before its optimizer."""
    import transformers

    class Capture(transformers.TrainerCallback):
        def on_pre_optimizer_step(self, *_arguments: Any, **_state: Any) -> None:
            own.record(model.inner, framework="transformers", version=transformers.__version__)

    class InOrder(transformers.Trainer):
        def _get_train_sampler(self, *_arguments: Any) -> SequentialSampler:
            return SequentialSampler(self.train_dataset)

    with step(cell, out) as own, tempfile.TemporaryDirectory() as folder:
        model = Model(own)
        settings = transformers.TrainingArguments(
            output_dir=folder,
            per_device_train_batch_size=1,
            gradient_accumulation_steps=own.layout.accum,
            max_steps=1,
            max_grad_norm=0.0,
            learning_rate=0.0,
            optim="sgd",
            use_cpu=True,
            ddp_backend="gloo",
            remove_unused_columns=False,
            save_strategy="no",
            report_to=[],
            disable_tqdm=True,
        )
        InOrder(
            model=model,
            args=settings,
            train_dataset=Units(own),
            data_collator=lambda items: items[0],
            callbacks=[Capture()],
        ).train()
