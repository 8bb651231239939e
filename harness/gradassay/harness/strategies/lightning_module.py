"""A task as a LightningModule; needs a Lightning release."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import lightning.pytorch
import torch
from torch import Tensor, nn
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.utils.data import DataLoader, DistributedSampler

from gradassay.harness.capture.unsharded import watch_unsharded
from gradassay.harness.strategies.task import Task

WINDOWS = 1024
"""How many windows the data holds: more than anybody runs."""

ACCUMULATED, CLIPPED, UPDATED = "accumulated", "clipped", "updated"
"""Where a window pauses."""


class Module(lightning.pytorch.LightningModule):  # type: ignore[misc]
    """Trains the model of a task window by window, pausing before clipping, after it and after the update.

    shard: for `ModelParallelStrategy`, apply `fully_shard` in `configure_model`, freeing parameters after the forward
    pass where `reshard`, with this precision policy.
    """

    def __init__(
        self, task: Task, model: nn.Module, *, shard: MixedPrecisionPolicy | None = None, reshard: bool = True
    ) -> None:
        super().__init__()
        self.model, self._task = model, task
        self._shard, self._reshard = shard, reshard
        self._steps: Iterator[int] = iter(())
        self.pause: Callable[[str], None] | None = None

    def configure_model(self) -> None:
        """Shards every block and the root, as Lightning's own guide to FSDP2 does."""
        if self._shard is None or hasattr(self.model, "set_requires_gradient_sync"):
            return
        mesh = self.device_mesh["data_parallel"]
        for module in (*self._task.problem.blocks(self.model), self.model):
            fully_shard(module, mesh=mesh, mp_policy=self._shard, reshard_after_forward=self._reshard)
        if self._task.watches:
            watch_unsharded(self.model, self._task.watch)

    def configure_optimizers(self) -> torch.optim.Optimizer:
        """SGD on the trained parameters."""
        trained = [parameter for parameter in self.model.parameters() if parameter.requires_grad]
        return torch.optim.SGD(trained, lr=self._task.plan.learning_rate)

    def train_dataloader(self) -> DataLoader[int]:
        """This rank's units of every window in their order; the sampler that Lightning puts in by itself shuffles."""
        layout, rank = self._task.layout, self._task.ranks.dp_rank
        units = list(range(layout.units)) * WINDOWS
        sampler = DistributedSampler(units, num_replicas=layout.dp, rank=rank, shuffle=False)  # type: ignore[var-annotated,arg-type]
        return DataLoader(units, sampler=sampler, batch_size=1)  # type: ignore[arg-type]

    def training_step(self, batch: Tensor, batch_idx: int) -> Tensor:
        """The loss of the unit that Lightning handed over, times the accumulation steps that it divides by."""
        accum = self._task.layout.accum
        if batch_idx % accum == 0:
            self._steps = self._task.micro_steps()
        micro = next(self._steps)
        unit, due = int(batch), self._task.layout.unit(self._task.ranks.dp_rank, micro)
        assert unit == due, f"Lightning handed over unit {unit} for micro step {micro}, where {due} is due"
        return self._task.loss(self.model, micro) * accum

    def on_before_optimizer_step(self, _optimizer: Any) -> None:
        """Pauses with the reduced gradient in place."""
        self._reach(ACCUMULATED)

    def configure_gradient_clipping(
        self, optimizer: Any, gradient_clip_val: float | None = None, gradient_clip_algorithm: str | None = None
    ) -> None:
        """Lightning's own clipping, then a pause."""
        super().configure_gradient_clipping(optimizer, gradient_clip_val, gradient_clip_algorithm)
        self._reach(CLIPPED)

    def on_train_batch_end(self, _outputs: Any, _batch: Any, batch_idx: int) -> None:
        """Pauses after the last micro-batch of a window, which the update follows at once."""
        if (batch_idx + 1) % self._task.layout.accum == 0:
            self._reach(UPDATED)

    def _reach(self, place: str) -> None:
        assert self.pause is not None
        self.pause(place)
