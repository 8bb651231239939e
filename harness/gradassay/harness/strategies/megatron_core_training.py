"""A model in training under Megatron-Core's DistributedDataParallel on one rank."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

import torch
from torch import Tensor, nn

from gradassay.goldens.header import Framework
from gradassay.harness.capture.piece import Piece
from gradassay.harness.strategies.megatron_core_configuration import parts
from gradassay.harness.strategies.megatron_core_device import on_this_device
from gradassay.harness.strategies.megatron_core_pieces import Share
from gradassay.harness.strategies.task import Task


def tokens_per_rank(task: Task) -> float:
    """Tokens of all units by data-parallel ranks: how much larger local gradients are with `calculate_per_token_loss`."""
    return sum(task.problem.tokens(unit) for unit in range(task.layout.units)) / task.layout.dp


@dataclass(frozen=True, kw_only=True)
class Training:
    """A `Session`. model: the package's `DistributedDataParallel`. optimizer: what `get_megatron_optimizer` made."""

    task: Task
    model: Any
    optimizer: Any
    shares: tuple[Share, ...]
    framework: Framework
    convention: Mapping[str, Any] = field(default_factory=dict)
    environment: Mapping[str, Any] = field(default_factory=dict)

    def accumulate(self) -> None:
        """Runs the package's own schedule for one stage: its loop, loss scales, `no_sync` and `finalize_model_grads`."""
        schedules = import_module("megatron.core.pipeline_parallel.schedules")
        with on_this_device():
            self.model.zero_grad_buffer()
            self.optimizer.zero_grad()
            schedules.get_forward_backward_func()(
                forward_step_func=self._forward,
                data_iterator=self.task.micro_steps(),
                model=[self.model],
                num_microbatches=self.task.layout.accum,
                seq_length=1,
                micro_batch_size=1,
                forward_only=False,
            )

    def _forward(self, micro_steps: Iterator[int], model: nn.Module) -> tuple[Tensor, Callable[[Tensor], Any]]:
        """The loss of the next unit, and what makes of it the loss (and number of tokens) that the schedule expects.

        By default the schedule divides by the number of micro-batches; with `calculate_per_token_loss` gradients are
        divided at the end by the tokens of all ranks and micro-batches.
        """
        task = self.task
        micro = next(micro_steps)
        loss = task.loss(model, micro)
        if not self.model.config.calculate_per_token_loss:
            return loss, lambda output: (output * task.layout.accum, {})
        count = task.problem.tokens(task.layout.unit(task.ranks.dp_rank, micro))
        tokens = torch.tensor(count, dtype=torch.int, device=task.device)
        return loss, lambda output: (output * tokens_per_rank(task), tokens, {})

    def gradients(self) -> list[Piece]:
        """This rank's shares of `main_grad`."""
        return [share.piece(share.of(share.parameter.main_grad)) for share in self.shares]

    def weights(self) -> list[Piece]:
        """This rank's shares of the parameters, of their float32 masters in bfloat16."""
        return [
            share.piece(share.of(share.parameter) if main is None else main.detach().reshape(-1))
            for share, main in self._mains()
        ]

    def clip(self, max_norm: float) -> list[Piece]:
        """The gradients that the optimizer will use, scaled by the package's total norm and by its clipping function."""
        clipping = import_module("megatron.core.optimizer.clip_grads")
        with on_this_device():
            self.optimizer.prepare_grads()
            norm = self.optimizer.get_grad_norm()
            for part in parts(self.optimizer):
                clipping.clip_grad_by_total_norm_fp32(part.get_parameters(), max_norm=max_norm, total_norm=norm)
        return [
            share.piece(share.of(share.parameter.main_grad) if main is None else main.grad.detach().reshape(-1))
            for share, main in self._mains()
        ]

    def update(self) -> None:
        """The optimizer's step; the next window empties the buffers."""
        with on_this_device():
            if self.task.plan.max_norm:
                self.optimizer.step_with_ready_grads()
            else:
                self.optimizer.step()

    def _mains(self) -> Iterator[tuple[Share, Any]]:
        """Every share with the float32 master of its elements, None where the parameter itself is updated."""
        for share in self.shares:
            yield share, getattr(share.parameter, "main_param", None)
