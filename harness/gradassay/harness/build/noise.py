"""How honest runs round: the distance of reference records from the float64 truth, by family."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gradassay.goldens.golden import Basis
from gradassay.goldens.header import NoiseFloor, Parameter
from gradassay.goldens.record import Record

STAGE, SECOND = "reduced.1", "reduced.2"


@dataclass(frozen=True, slots=True, kw_only=True)
class Distances:
    """One record's distance from the truth of its own layout, for the n parameters whose truth is not zero.

    names: [n]. error: [n] float64, ||sketch - truth|| / ||truth||. scale: [n] float64,
    |<sketch, truth>/<truth, truth> - 1|. astray: parameters with a gradient where the truth has none.
    """

    names: tuple[str, ...]
    families: tuple[str, ...]
    error: NDArray[np.float64]
    scale: NDArray[np.float64]
    astray: tuple[str, ...] = ()

    def worst(self) -> int:
        """Index of the parameter that is farthest from its truth."""
        return int(np.argmax(self.error))


def distances(
    record: Record,
    basis: Basis,
    parameters: Sequence[Parameter],
    coefficients: NDArray[np.float64],
    *,
    stage: str = STAGE,
) -> Distances:
    """The distances of a record; coefficients: [units] float64, c_true of the record's layout. basis: of the stage's step."""
    truth = np.einsum("u,upk->pk", coefficients, basis.sketch[: len(coefficients)])
    rows = {parameter.name: index for index, parameter in enumerate(record.header.parameters)}
    measured = record.captures[stage].sketch[[rows[parameter.name] for parameter in parameters]]
    power = np.einsum("pk,pk->p", truth, truth)
    seen = power > 0
    away = np.linalg.norm(measured - truth, axis=1)
    along = np.einsum("pk,pk->p", measured, truth)
    kept = [parameter for parameter, known in zip(parameters, seen, strict=True) if known]
    return Distances(
        names=tuple(parameter.name for parameter in kept),
        families=tuple(parameter.family for parameter in kept),
        error=away[seen] / np.sqrt(power[seen]),
        scale=np.abs(along[seen] / power[seen] - 1),
        astray=tuple(p.name for p, known, far in zip(parameters, seen, away, strict=True) if not known and far > 0),
    )


def noise_floors(samples: Sequence[Distances]) -> dict[str, NoiseFloor]:
    """The floor of every family: quantiles over all its parameters in all records, each one sample.

    The 99.9 % quantile is the smallest sample that is not below it, hence the largest where there are fewer than 1000.
    """
    families = dict.fromkeys(family for sample in samples for family in sample.families)
    return {family: _floor(family, samples) for family in families}


def _floor(family: str, samples: Sequence[Distances]) -> NoiseFloor:
    error, scale = (np.concatenate(values) for values in zip(*(_of(family, sample) for sample in samples), strict=True))
    q50, q999 = np.quantile(error, (0.5, 0.999), method="higher")
    return NoiseFloor(
        q50=float(q50),
        q999=float(q999),
        samples=len(error),
        scale=float(np.quantile(scale, 0.999, method="higher")),
    )


def _of(family: str, sample: Distances) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    chosen = np.array([own == family for own in sample.families], dtype=bool)
    return sample.error[chosen], sample.scale[chosen]
