"""Captures a step of anybody's training script."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from gradassay.goldens.errors import UsageError
from gradassay.goldens.header import DtypeProfile, Framework, Parameter, RecordHeader, StageStep
from gradassay.goldens.header import Problem as ProblemName
from gradassay.goldens.layout import Layout
from gradassay.goldens.record import Capture, Record
from gradassay.harness.capture.exchange import Exchange
from gradassay.harness.capture.local import local_piece
from gradassay.harness.capture.piece import Piece
from gradassay.harness.capture.surroundings import environment, now, source
from gradassay.harness.capture.take import take
from gradassay.harness.cell import DTYPES
from gradassay.harness.problems.protocol import Problem

_WRAPPERS = re.compile(r"(?:^|(?<=\.))(?:_orig_mod|_checkpoint_wrapped_module)\.")
STAGES = ("reduced", "local", "clipped", "update")


class Recorder:
    """Captures gradients of a model that trains on `problem`, and saves them as a record.

    The model may be plain (the gradients of a layout with dp > 1 reduced by the caller's own code), wrapped in
    DistributedDataParallel, or sharded by `fully_shard`; experts (family `expert`) live on contiguous ep groups where
    ep > 1. names: the model's own parameter names -> the problem's canonical ones, where they differ. dtype: a profile
    of the run, "float32" or "bfloat16", or its element types one by one. full: store the gradients as well.
    convention: what this run legitimately does otherwise, as in a record's header.

    Every rank makes one and makes the same calls in the same order.
    """

    def __init__(
        self,
        problem: Problem,
        layout: Layout,
        *,
        framework: str = "torch",
        version: str = "",
        strategy: str = "custom",
        dtype: str | DtypeProfile = "float32",
        names: Mapping[str, str] | None = None,
        convention: Mapping[str, Any] | None = None,
        full: bool = False,
    ) -> None:
        self.problem, self.layout = problem, layout
        if isinstance(dtype, str) and dtype not in DTYPES:
            raise UsageError(f"no dtype profile {dtype!r}", hint=f"known: {', '.join(DTYPES)}")
        self._dtype = DTYPES[dtype] if isinstance(dtype, str) else dtype
        self._framework = Framework(name=framework, version=version)
        self._strategy, self._full = strategy, full
        self._names, self._convention = dict(names or {}), dict(convention or {})
        self._captures: dict[str, Capture] = {}
        self._stages: list[StageStep] = []
        self._parameters: tuple[Parameter, ...] = problem.parameters
        if layout.world > layout.dp:
            raise UsageError(
                f"layout {layout}: a Recorder captures data-parallel ranks, with experts spread over them or not",
                hint="use tp = pp = cp = 1",
            )
        world = dist.get_world_size() if dist.is_initialized() else 1
        if world != layout.world:
            raise UsageError(
                f"layout {layout} has {layout.world} ranks, but this process group has {world}",
                hint="give the layout of this run",
            )
        self._group = dist.group.WORLD if dist.is_initialized() else None
        self._dp_rank = dist.get_rank() if dist.is_initialized() else 0

    def capture(self, model: nn.Module, stage: str = "reduced", step: int = 1) -> None:
        """Captures `.grad` of every trained parameter; collective. Call it after reduction, before clipping and
        `optimizer.step()`.

        Raises Incomplete where ranks together do not hold every element once, UsageError for a model of another kind.
        """
        if stage not in STAGES:
            raise UsageError(f"no stage is called {stage!r}", hint=f"choose from {', '.join(STAGES)}")
        where = StageStep(stage=stage, step=step)
        if where in self._stages:
            raise UsageError(f"{where} was captured before", hint="count `step` up, or make a Recorder for each run")
        pieces = self._pieces(model)
        device = next((piece.values.device for piece in pieces if piece.values is not None), torch.device("cpu"))
        self._device = device
        taken = take(
            pieces,
            self.problem.parameters,
            Exchange(group=self._group, device=self._collective_device(device)),
            dp_rank=self._dp_rank,
            dp=self.layout.dp,
            full=self._full,
        )
        self._captures[str(where)] = taken.capture
        self._stages.append(where)
        self._parameters = taken.parameters

    def save(self, path: str | Path) -> None:
        """Writes the record on rank 0, whole or not at all, and returns on every rank once it is there; collective."""
        if not self._stages:
            raise UsageError("nothing was captured yet", hint="call capture(model) after the backward pass")
        if self._dp_rank == 0:
            self.record().write(Path(path))
        if self._group is not None:
            dist.barrier(self._group)

    def record(self) -> Record:
        """What was captured so far, as rank 0 would save it."""
        header = RecordHeader(
            problem=ProblemName(name=self.problem.name, digest=self.problem.digest),
            framework=self._framework,
            strategy=self._strategy,
            layout=self.layout,
            dtype=self._dtype,
            stages=tuple(self._stages),
            parameters=self._parameters,
            convention=self._convention,
            environment=environment(self._device),
            source=source(),
            created=now(),
        )
        return Record(header=header, captures=dict(self._captures))

    def _pieces(self, model: nn.Module) -> list[Piece]:
        while isinstance(model, DistributedDataParallel):
            model = model.module
        if any(type(module).__name__ == "FullyShardedDataParallel" for module in model.modules()):
            raise UsageError(
                "this model is wrapped in FullyShardedDataParallel (FSDP1), whose gradients are flat buffers",
                hint="shard it by torch.distributed.fsdp.fully_shard",
            )
        families = {parameter.name: parameter.family for parameter in self.problem.parameters}
        edp_rank = self._dp_rank // self.layout.ep
        pieces = []
        for local, parameter in model.named_parameters():
            if parameter.requires_grad:
                plain = _WRAPPERS.sub("", local)
                name = self._names.get(local, self._names.get(plain, plain))
                replica = edp_rank if families.get(name) == "expert" else self._dp_rank
                pieces.append(local_piece(name, parameter, parameter.grad, replica=replica))
        return pieces

    def _collective_device(self, device: torch.device) -> torch.device:
        if self._group is not None and dist.get_backend(self._group) == "gloo":
            return torch.device("cpu")
        return device
