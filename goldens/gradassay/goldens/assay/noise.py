"""How far an honest run may be from the truth, and the smallest error that this leaves visible."""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt
from statistics import NormalDist

from gradassay.goldens.header import NoiseFloor

FALSE_ALARMS = 1e-3
LEAST_POWER = 1.02

_MEASURED_QUANTILE = 0.999
# A relative error says nothing of its direction. Rounding spreads over all directions, but not perfectly: where the part
# along the truth was not measured, a systematic part of this size is allowed for.
_UNMEASURED_SCALE = 2e-3
_FAMILY_GAIN = 4.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Tolerance:
    """What an honest run of one parameter stays within.

    error: relative error ||candidate - truth|| / ||truth||. scale: |ratio - 1|, the part along the truth.
    """

    error: float
    scale: float


def tolerance(floor: NoiseFloor, *, tests: int, elements: float, storage: float = 0.0) -> Tolerance:
    """The tolerance of one of `tests` parameters, so that all of them together raise a false alarm in 0.1 % of runs.

    Between the measured median and 99.9 % quantile the error is taken as log-normal, which extrapolates to the quantile that
    `tests` parameters need; few samples widen it. elements: independent numbers behind the comparison, at most 1024.
    storage: relative rounding of the stored sketches.
    """
    widening = _widening(floor, tests)
    error = floor.q999 * widening
    if floor.scale is not None:
        # Along one direction rounding is close to normal, whose tail is longer than that of a length.
        along = floor.scale * max(widening, _normal_widening(floor, tests))
    else:
        spread = floor.q999 * _deviations(tests) / sqrt(max(1.0, elements))
        along = max(spread, min(floor.q999, _UNMEASURED_SCALE))
    return Tolerance(error=sqrt(error**2 + storage**2), scale=min(error, along) + storage)


def relaxed(allowed: Tolerance, factor: float) -> Tolerance:
    """The tolerance where rounding is `factor` times as large relative to the truth."""
    return Tolerance(error=allowed.error * factor, scale=allowed.scale * factor)


def coarsened(allowed: Tolerance, *, roundoff: float, sums: int) -> Tolerance:
    """The tolerance where `sums` additions were each rounded by `roundoff` at most, which the floor does not hold.

    Roundings of different additions are independent; what small addends lose to a large sum is lost along it.
    """
    return Tolerance(error=sqrt(allowed.error**2 + sums * roundoff**2), scale=allowed.scale + roundoff / 2)


def family_scale(floor: NoiseFloor, *, parameters: int, elements: float, storage: float = 0.0) -> float:
    """The |ratio - 1| that a family of `parameters` stays within when their ratios are averaged.

    elements: independent numbers in all of them together. Rounding of different parameters is only partly independent
    (all of it passes through the same activations): reference runs in bfloat16 show means that shrink with the fourth root
    of the number of parameters rather than the square root, and at most a factor of four is trusted.
    """
    gain = min(sqrt(sqrt(parameters)), _FAMILY_GAIN)
    if floor.scale is not None:
        return floor.scale * _widening(floor, 1) / gain + storage
    spread = floor.q999 * _deviations(1) / sqrt(max(1.0, elements))
    return min(floor.q999, max(spread, min(floor.q999, _UNMEASURED_SCALE) / gain)) + storage


def _normal_widening(floor: NoiseFloor, tests: int) -> float:
    return _deviations(tests) / NormalDist().inv_cdf(_MEASURED_QUANTILE) * (1 + 2 / sqrt(floor.samples))


def _deviations(tests: int) -> float:
    return NormalDist().inv_cdf(1 - FALSE_ALARMS / max(1, tests))


def _widening(floor: NoiseFloor, tests: int) -> float:
    beyond = _deviations(tests) / NormalDist().inv_cdf(_MEASURED_QUANTILE)
    tail = floor.q999 / floor.q50 if floor.q50 > 0 else 2.0
    return max(1.0, min(float(tail ** (beyond - 1)), 3.0)) * (1 + 2 / sqrt(floor.samples))
