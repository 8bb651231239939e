"""A LightningModule, captured in Lightning's own hook between the last backward pass and the optimizer.

1. pip install lightning
2. torchrun --nproc-per-node 2 examples/with_lightning.py run.safetensors
3. gradassay diff golden:moe-tiny.float32@approved run.safetensors
"""

from __future__ import annotations

import os
import sys

import lightning
import torch
from torch.utils.data import DataLoader, DistributedSampler

from gradassay.harness import Layout, Recorder, load_problem

ACCUM = 2


class Training(lightning.LightningModule):
    def __init__(self, layout: Layout, out: str) -> None:
        super().__init__()
        self.problem, self.layout, self.out = load_problem("moe-tiny"), layout, out
        self.model = self.problem.build(torch.float32)

    def train_dataloader(self) -> DataLoader:
        units = range(self.layout.units)
        return DataLoader(units, batch_size=None, sampler=DistributedSampler(units, shuffle=False))

    def training_step(self, unit: int, _index: int) -> torch.Tensor:
        batch = self.problem.batch(int(unit), self.device)
        return sum(self.problem.losses(self.model, batch).values())

    def on_before_optimizer_step(self, _optimizer: torch.optim.Optimizer) -> None:
        recorder = Recorder(self.problem, self.layout, framework="lightning", version=lightning.__version__)
        recorder.capture(self.model)  # reduced, before Lightning clips
        recorder.save(self.out)

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), lr=0.1)


def main(out: str) -> None:
    world = int(os.environ["WORLD_SIZE"])
    trainer = lightning.Trainer(
        accelerator="gpu" if torch.cuda.is_available() else "cpu",
        devices=world,
        strategy="ddp",
        accumulate_grad_batches=ACCUM,
        max_steps=1,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        use_distributed_sampler=False,
    )
    trainer.fit(Training(Layout(dp=world, accum=ACCUM), out))


if __name__ == "__main__":
    main(sys.argv[1])
