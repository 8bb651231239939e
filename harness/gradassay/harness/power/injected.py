"""Errors of any size, put into an honest run's record and gradients alike."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from gradassay.goldens.record import Record
from gradassay.goldens.sketch import sketch
from gradassay.harness.power.honest import STAGE, Honest, gradients
from gradassay.harness.power.published import Gradient, Gradients


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A run: its record, without gradients, and its gradients."""

    record: Record
    gradients: Gradients

    @classmethod
    def of(cls, record: Record) -> Candidate:
        """The run as it was recorded."""
        capture = replace(record.captures[STAGE], full=None)
        return cls(record=replace(record, captures={STAGE: capture}), gradients=gradients(record))

    def changed(self, by: Mapping[str, tuple[NDArray[np.float64], Gradient]]) -> Candidate:
        """The run with sketches and gradients of some parameters exchanged."""
        capture = self.record.captures[STAGE]
        rows = {parameter.name: row for row, parameter in enumerate(self.record.header.parameters)}
        sketches, norm2 = capture.sketch.copy(), capture.norm2.copy()
        for name, (row, values) in by.items():
            sketches[rows[name]] = row.astype(np.float32)
            norm2[rows[name]] = float(np.vdot(values.astype(np.float64), values))
        altered = replace(capture, sketch=sketches, norm2=norm2)
        return Candidate(
            record=replace(self.record, captures={STAGE: altered}),
            gradients={**self.gradients, **{name: values for name, (_, values) in by.items()}},
        )

    def sketch(self, name: str) -> NDArray[np.float64]:
        """[1024] of one parameter."""
        rows = {parameter.name: row for row, parameter in enumerate(self.record.header.parameters)}
        found: NDArray[np.float64] = self.record.captures[STAGE].sketch[rows[name]]
        return found


class Error(Protocol):
    """A way to be wrong. title: in words. limits: sizes between which it is looked for."""

    title: str
    limits: tuple[float, float]

    def targets(self, members: Sequence[str]) -> list[frozenset[str]]:
        """Which of a family's tensors are wrong together: one after the other, or all of them."""
        ...

    def put(self, candidate: Candidate, names: frozenset[str], size: float, honest: Honest) -> Candidate:
        """The candidate with an error of this size in these tensors."""
        ...

    def rounded(self, candidate: Candidate, names: frozenset[str], size: float) -> float:
        """The size that `put` makes of one that was asked for."""
        ...


class _Exact:
    """Of any size."""

    def rounded(self, candidate: Candidate, names: frozenset[str], size: float) -> float:
        """The size itself."""
        return size


class Factor(_Exact):
    """A factor of 1 + size."""

    limits = (1e-7, 10.0)

    def __init__(self, *, family: bool) -> None:
        self.title = "factor on a family" if family else "factor on one tensor"
        self._family = family

    def targets(self, members: Sequence[str]) -> list[frozenset[str]]:
        """Tensors one by one, or the family."""
        return [frozenset(members)] if self._family else [frozenset({name}) for name in spread(members)]

    def put(self, candidate: Candidate, names: frozenset[str], size: float, honest: Honest) -> Candidate:
        """Sketch and gradient are linear."""
        factor = 1 + size
        return candidate.changed(
            {name: (candidate.sketch(name) * factor, candidate.gradients[name] * np.float32(factor)) for name in names}
        )


class UnitWeight(_Exact):
    """One unit, the first, weighs 1 + size in a whole family."""

    title = "weight of one unit"
    limits = (1e-7, 1000.0)

    def targets(self, members: Sequence[str]) -> list[frozenset[str]]:
        """The family."""
        return [frozenset(members)]

    def put(self, candidate: Candidate, names: frozenset[str], size: float, honest: Honest) -> Candidate:
        """More of the unit's own gradient."""
        golden = honest.golden
        rows = {parameter.name: row for row, parameter in enumerate(golden.header.parameters)}
        share = size * float(golden.true_coefficients(honest.layout.units)[0])
        return candidate.changed(
            {
                name: (
                    candidate.sketch(name) + share * golden.bases[1].sketch[0, rows[name]],
                    candidate.gradients[name] + np.float32(share) * honest.unit[name],
                )
                for name in names
            }
        )


class WrongShare:
    """This share of a tensor's elements, in one stretch at its start, is twice as large."""

    title = "share of a tensor, twice too large"
    limits = (1e-6, 1.0)

    def targets(self, members: Sequence[str]) -> list[frozenset[str]]:
        """Tensors one by one."""
        return [frozenset({name}) for name in spread(members)]

    def put(self, candidate: Candidate, names: frozenset[str], size: float, honest: Honest) -> Candidate:
        """The stretch once more."""
        changes = {}
        for name in names:
            values = candidate.gradients[name]
            flat = values.ravel().copy()
            wrong = round(self.rounded(candidate, names, size) * flat.size)
            added = sketch(flat[:wrong], 0, flat.size)
            flat[:wrong] *= 2
            changes[name] = (candidate.sketch(name) + added, flat.reshape(values.shape))
        return candidate.changed(changes)

    def rounded(self, candidate: Candidate, names: frozenset[str], size: float) -> float:
        """Of whole elements, at least one."""
        (name,) = names
        elements = candidate.gradients[name].size
        return max(1, round(size * elements)) / elements


ERRORS: tuple[Error, ...] = (Factor(family=False), Factor(family=True), UnitWeight(), WrongShare())

_MOST_TENSORS = 4


def spread(members: Sequence[str]) -> list[str]:
    """A few of a family's tensors, evenly from the first to the last."""
    if len(members) <= _MOST_TENSORS:
        return list(members)
    return [members[round(place)] for place in np.linspace(0, len(members) - 1, _MOST_TENSORS)]
