"""Captures the steps of anybody's training script."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import nn

from gradassay.goldens.errors import UsageError
from gradassay.goldens.header import DtypeProfile, Framework, Parameter, RecordHeader, StageStep, Update
from gradassay.goldens.layout import Layout
from gradassay.goldens.record import Capture, Record
from gradassay.harness.capture.change import kept
from gradassay.harness.capture.exchange import Exchange
from gradassay.harness.capture.models import recognise
from gradassay.harness.capture.moment.reductions import Reductions
from gradassay.harness.capture.moment.scaler import remaining, scale_of, scaler_signs
from gradassay.harness.capture.moment.sign import agree
from gradassay.harness.capture.moment.updates import Updates
from gradassay.harness.capture.scene import Scene
from gradassay.harness.capture.subject import Subject, of_model, of_problem
from gradassay.harness.capture.surroundings import environment, now, source
from gradassay.harness.capture.take import Taken
from gradassay.harness.capture.units import UnitSketches
from gradassay.harness.capture.watch import Watch
from gradassay.harness.cell import DTYPES
from gradassay.harness.names import NameMap
from gradassay.harness.problems.protocol import Problem

STAGES = ("reduced", "clipped")
"""Stages that `capture` takes; `watch` gives stage local, `update` stage update."""


class Recorder:
    """Captures gradients of a model in training, and saves them as a record.

    problem: what the model trains on, or None for a model that has no reference; its own parameters are recorded then. The
    model may be plain (the gradients of a layout with dp > 1 reduced by the script's own code), tensor-parallel by
    `parallelize_module`, wrapped in DistributedDataParallel or sharded by `fully_shard`, and compiled; which is seen by
    itself. Experts (family `expert`) live on contiguous ep groups where ep > 1; tensor-parallel ranks are neighbours.

    names: the model's own parameter names -> the problem's where they differ, as renames, a `NameMap` or the path of one
    in TOML. dtype: a profile of the run, "float32" or "bfloat16", or its element types one by one. full: store the
    gradients as well. convention: what this run legitimately does otherwise, as in a record's header. self_assay: record
    every rank's own gradient of each micro-batch too, so that the record can be judged without a golden; see `watch`.

    Every rank makes one and makes the same calls in the same order.
    """

    def __init__(
        self,
        problem: Problem | None,
        layout: Layout,
        *,
        framework: str = "torch",
        version: str = "",
        strategy: str = "custom",
        dtype: str | DtypeProfile = "float32",
        names: NameMap | Mapping[str, str] | str | Path | None = None,
        convention: Mapping[str, Any] | None = None,
        full: bool = False,
        self_assay: bool = False,
    ) -> None:
        self.problem, self.layout = problem, layout
        if isinstance(dtype, str) and dtype not in DTYPES:
            raise UsageError(f"no dtype profile {dtype!r}", hint=f"known: {', '.join(DTYPES)}")
        if problem is None and names is not None:
            raise UsageError(
                "names without a problem", hint="names map a model's parameters to a problem's; leave them out"
            )
        self._dtype = DTYPES[dtype] if isinstance(dtype, str) else dtype
        self._framework = Framework(name=framework, version=version)
        self._strategy, self._full, self._self_assay = strategy, full, self_assay
        self._names, self._convention = NameMap.of(names), dict(convention or {})
        self._captures: dict[StageStep, Capture] = {}
        self._subject: Subject | None = None
        self._parameters: tuple[Parameter, ...] = ()
        self._watch: Watch | None = None
        self._units: UnitSketches | None = None
        self._update: Update | None = None
        self._updates, self._reductions = Updates(), Reductions()
        _check_layout(layout)
        self._group = dist.group.WORLD if dist.is_initialized() else None
        self._device = torch.device("cpu")

    def watch(self, model: nn.Module) -> None:
        """Watches the micro-batches of a step until it is captured: call it before the first of them; collective.

        Each is one forward pass of `model` with gradients enabled, and its backward pass. With `self_assay` every one's
        gradient is sketched before it is accumulated or reduced, and recorded as stage local.
        """
        self._unwatch()
        scene = self._scene(model)
        scene.model.begin()
        if self._self_assay:
            self._units = self._units or scene.units()
            self._units.forget()
        self._watch = scene.watch(model, self._units)

    def capture(
        self, model: nn.Module, stage: str = "reduced", step: int = 1, *, scaler: Any = None, anyway: bool = False
    ) -> None:
        """Captures the gradient of every trained parameter; collective. Call it after reduction, before clipping and
        `optimizer.step()`; or after clipping, with stage="clipped".

        scaler: the GradScaler of the script, by whose scale gradients are divided unless it has unscaled them. anyway:
        record what only looks like another moment (cleared, clipped, every rank's own) as it is. Raises WrongMoment where
        this is not the moment, Incomplete where ranks together do not hold every element once, UsageError for a model of
        another kind.
        """
        where = self._new(stage, step, STAGES)
        reduced = stage == "reduced"
        if self._self_assay and reduced and self._watch is None:
            raise UsageError(
                "self_assay needs the gradient of every micro-batch, but nothing was watched",
                hint="call recorder.watch(model) before the first forward pass of the step",
            )
        scene, watch = self._scene(model), self._watch if reduced else None
        tensors = [own.tensor for own in scene.model.parameters()]
        signs = [*self._updates.signs(tensors), *scene.model.signs(), *scaler_signs(scaler, tensors)]
        agree([*signs, *(watch.signs() if watch else ())], scene.exchange)
        taken = scene.gradient(stage, scale=remaining(scaler), anyway=anyway)
        if watch is not None and watch.units is not None:
            local = StageStep(stage="local", step=step)
            self._captures[local] = scene.local(watch.units, scale=scale_of(scaler))
        if reduced:
            self._unwatch()
            scene.model.begin()
        self._keep(where, taken)

    @contextmanager
    def update(self, model: nn.Module, *, learning_rate: float, max_norm: float = 0.0, step: int = 1) -> Iterator[None]:
        """Around the update of a step: records (before - after) / learning_rate as stage update; collective.

        learning_rate: of SGD without momentum and weight decay. max_norm: to what the total norm was clipped before, 0 for
        not at all. Raises UsageError where these change from step to step.
        """
        where = self._new("update", step, ("update",))
        update = Update(learning_rate=learning_rate, max_norm=max_norm)
        if learning_rate <= 0 or (self._update or update) != update:
            raise UsageError(
                f"{update}" + (f" after {self._update}" if self._update else ""),
                hint="give the positive learning rate of the optimizer; it is one for all steps of a record",
            )
        scene = self._scene(model)
        before = kept(scene.model.weights())
        yield
        self._keep(where, scene.change(before, learning_rate))
        self._update = update

    def save(self, path: str | Path) -> None:
        """Writes the record on rank 0, whole or not at all, and returns on every rank once it is there; collective."""
        if not self._captures:
            raise UsageError("nothing was captured yet", hint="call capture(model) after the backward pass")
        if self._group is None or dist.get_rank(self._group) == 0:
            self.record().write(Path(path))
        if self._group is not None:
            dist.barrier(self._group)

    def record(self) -> Record:
        """What was captured so far, as rank 0 would save it."""
        assert self._subject is not None, "nothing was captured yet"
        return Record(
            header=RecordHeader(
                problem=self._subject.problem,
                framework=self._framework,
                strategy=self._strategy,
                layout=self.layout,
                dtype=self._dtype,
                stages=tuple(self._captures),
                parameters=self._parameters,
                convention=self._convention,
                environment=environment(self._device),
                source=source(),
                created=now(),
                update=self._update,
            ),
            captures={str(where): capture for where, capture in self._captures.items()},
        )

    def _new(self, stage: str, step: int, known: tuple[str, ...]) -> StageStep:
        if stage not in known:
            elsewhere = {"local": "self_assay=True and watch(model)", "update": "with recorder.update(model, ...)"}
            raise UsageError(
                f"capture takes no stage {stage!r}",
                hint=f"use {elsewhere[stage]}" if stage in elsewhere else f"choose from {', '.join(known)}",
            )
        where = StageStep(stage=stage, step=step)
        if where in self._captures:
            raise UsageError(f"{where} was captured before", hint="count `step` up, or make a Recorder for each run")
        return where

    def _scene(self, outer: nn.Module) -> Scene:
        """The model as it is found; in the first one also what is captured of it, and by which names."""
        model = recognise(outer, self.layout, self._reductions)
        own = list(model.parameters())
        self._device = next((parameter.tensor.device for parameter in own), self._device)
        gloo = self._group is not None and dist.get_backend(self._group) == "gloo"
        exchange = Exchange(group=self._group, device=torch.device("cpu") if gloo else self._device)
        if self._subject is None:
            if self.problem is None:
                self._subject = of_model(type(model.module).__name__, own, model.place, exchange)
            else:
                self._subject = of_problem(self.problem, self._names, own, model.place)
            self._parameters = self._subject.parameters
        return Scene(model=model, subject=self._subject, exchange=exchange, full=self._full)

    def _keep(self, where: StageStep, taken: Taken) -> None:
        self._captures[where] = taken.capture
        self._parameters = taken.parameters

    def _unwatch(self) -> None:
        if self._watch is not None:
            self._watch.remove()
            self._watch = None


def _check_layout(layout: Layout) -> None:
    if layout.pp * layout.cp > 1:
        raise UsageError(
            f"layout {layout}: a Recorder captures data-parallel and tensor-parallel ranks", hint="use pp = cp = 1"
        )
    world = dist.get_world_size() if dist.is_initialized() else 1
    if world != layout.world:
        raise UsageError(
            f"layout {layout} has {layout.world} ranks, but this process group has {world}",
            hint="give the layout of this run",
        )
