"""A model in training on this rank, with what is captured of it and the ranks to do so with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from torch import nn

from gradassay.goldens.record import Capture
from gradassay.harness.capture.change import changes, rounding
from gradassay.harness.capture.exchange import Exchange
from gradassay.harness.capture.models.protocol import Model
from gradassay.harness.capture.moment.values import check_cleared, check_clipped, check_one_copy, check_reduced
from gradassay.harness.capture.piece import Piece
from gradassay.harness.capture.subject import Subject
from gradassay.harness.capture.take import Taken, take
from gradassay.harness.capture.units import UnitSketches
from gradassay.harness.capture.watch import Watch


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """model: this rank's. exchange: with all ranks. full: take the gradients themselves as well."""

    model: Model
    subject: Subject
    exchange: Exchange
    full: bool = False

    def take(self, pieces: list[Piece]) -> Taken:
        """The capture of all ranks' pieces by the model's own names; collective."""
        return take(
            self.subject.canonical(pieces),
            self.subject.parameters,
            self.exchange,
            dp_rank=self.model.place.dp_rank,
            dp=self.model.place.layout.dp,
            full=self.full,
        )

    def gradient(self, stage: str, *, scale: float, anyway: bool) -> Taken:
        """The capture of the gradient divided by `scale`; raises WrongMoment for what does not look like it."""
        taken = self.take([_divided(piece, scale) for piece in self.model.gradients()])
        if not anyway:
            check_cleared(taken.capture)
            if self.model.place.layout.dp == 1:
                check_one_copy(taken.capture, taken.parameters, taken.dtype)
            if self.model.reduced_by_script:
                check_reduced(taken.capture, taken.parameters, taken.dtype)
            if stage == "reduced":
                check_clipped(taken.capture, taken.dtype)
        return taken

    def local(self, units: UnitSketches, *, scale: float) -> Capture:
        """What was sketched of every micro-batch, divided by `scale` and by the model's own."""
        scale *= self.model.loss_scale
        capture = units.capture()
        if scale == 1:
            return capture
        assert capture.units is not None
        return replace(
            capture,
            sketch=capture.sketch / scale,
            norm2=capture.norm2 / scale**2,
            absmax=capture.absmax / scale,
            units=capture.units / scale,
        )

    def change(self, before: Sequence[Piece], learning_rate: float) -> Taken:
        """What the parameters have lost since `before`, divided by the learning rate."""
        after = self.model.weights()
        taken = self.take(changes(before, after, learning_rate))
        slack = rounding(after, self.take(after).capture.norm2, learning_rate)
        return replace(taken, capture=replace(taken.capture, rounding=slack))

    def units(self) -> UnitSketches:
        """Sketches of the micro-batches of one window after the other."""
        place = self.model.place
        return UnitSketches(
            self.subject.parameters,
            self.exchange,
            accum=place.layout.accum,
            dp_rank=place.dp_rank,
            dp=place.layout.dp,
            whole=self.subject.renamed if place.tp_rank == 0 else {},
        )

    def watch(self, outer: nn.Module, units: UnitSketches | None) -> Watch:
        """Watches a window of micro-batches from here on, to be sketched in `units`."""
        accum = self.model.place.layout.accum
        return Watch(outer, self.model, accum=accum, units=units, canonical=self.subject.canonical)


def _divided(piece: Piece, scale: float) -> Piece:
    return piece if scale == 1 or piece.values is None else replace(piece, values=piece.values / scale)
