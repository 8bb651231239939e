"""What the training scripts of this folder have in common: a process group, a problem's data, and a record."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from gradassay.harness import Layout, Recorder, load_problem
from gradassay.harness.cell import Cell
from gradassay.harness.mesh import Ranks, join
from gradassay.harness.parallel import ExpertParallel
from gradassay.harness.problems.protocol import Batch, Problem

MENDED = "mended"


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One step of one of these scripts on this rank. mended: whether the faulty line is mended."""

    cell: Cell
    problem: Problem
    ranks: Ranks
    out: Path

    @property
    def layout(self) -> Layout:
        """The parallel sizes."""
        return self.cell.layout

    @property
    def mended(self) -> bool:
        """Whether to do the right thing where the report does the wrong one."""
        return self.cell.options.get(MENDED) == "true"

    def model(self) -> nn.Module:
        """The problem's model in float32, experts spread over ep groups."""
        return self.problem.build(torch.float32, experts=ExpertParallel.of(self.ranks))

    def unit(self, micro: int) -> int:
        """This rank's unit of a micro step; ranks that are no data-parallel ones share it."""
        return self.layout.unit(self.ranks.dp_rank % self.layout.dp, micro)

    def batch(self, micro: int) -> Batch:
        """The data of the unit."""
        return self.problem.batch(self.unit(micro))

    def tokens(self, micro: int) -> int:
        """How many tokens of it count in the loss."""
        return self.problem.tokens(self.unit(micro))

    def loss(self, model: nn.Module, micro: int) -> Tensor:
        """Its mean loss."""
        return torch.stack(list(self.problem.losses(model, self.batch(micro)).values())).sum()

    def average(self, model: nn.Module, *, leave: frozenset[str] = frozenset()) -> None:
        """All-reduces gradients to their mean over ranks, those of the parameters in `leave` not."""
        for name, parameter in model.named_parameters():
            if parameter.requires_grad and name not in leave:
                dist.all_reduce(parameter.grad)
                parameter.grad.div_(dist.get_world_size())

    def experts(self, model: nn.Module) -> frozenset[str]:
        """Names of the experts' parameters."""
        held = {id(parameter) for module in self.problem.expert_modules(model) for parameter in module.parameters()}
        return frozenset(name for name, parameter in model.named_parameters() if id(parameter) in held)

    def record(self, model: nn.Module, **facts: Any) -> None:
        """Captures the gradient as it stands, whatever it looks like, and saves the record."""
        recorder = self._recorder(self.layout, **facts)
        recorder.capture(model, anyway=True)
        recorder.save(self.out)

    def record_gathered(self, model: nn.Module, **facts: Any) -> None:
        """The same for sizes that a Recorder does not take (pp, cp, tp of a plain model): rank 0 holds the whole gradient."""
        rank = dist.get_rank()
        dist.barrier()
        dist.destroy_process_group()
        if rank:
            return
        recorder = self._recorder(Layout(accum=self.layout.accum), **facts)
        recorder.capture(model, anyway=True)
        record = recorder.record()
        replace(record, header=replace(record.header, layout=self.layout)).write(self.out)

    def _recorder(self, layout: Layout, **facts: Any) -> Recorder:
        facts = {"framework": "torch", "version": torch.__version__.partition("+")[0], "strategy": "script"} | facts
        return Recorder(self.problem, layout, **facts)


@contextmanager
def step(cell: Cell, out: Path) -> Iterator[Step]:
    """A step inside a process group over gloo."""
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    try:
        yield Step(cell=cell, problem=load_problem(cell.problem), ranks=join(cell.layout), out=out)
    finally:
        if dist.is_initialized():
            dist.destroy_process_group()
