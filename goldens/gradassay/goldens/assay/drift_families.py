"""How the gradients of two goldens differ, unit by unit and family by family."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite

import numpy as np
from numpy.typing import NDArray

from gradassay.goldens.assay.evidence import matched
from gradassay.goldens.assay.noise import Tolerance, family_scale, tolerance
from gradassay.goldens.golden import Basis, Golden
from gradassay.goldens.header import NoiseFloor, Parameter
from gradassay.goldens.sketch import BUCKETS

# What is taken for rounding of a family that the older golden measured none of: that of float64, in which bases are made.
_FLOAT64 = NoiseFloor(q50=1e-13, q999=1e-11, samples=1000)
_LEAST_SCALE = 1e-13
_DEVIATIONS = 8.0
_ROWS = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class FamilyDrift:
    """How one family moved. moved of parameters: how many differ at all; broken: names of those that rounding does not
    explain. largest: relative difference of any unit's gradient; allowed: what rounding may do. ratio: mean of
    <new, old>/<old, old>. sentence: what happened, empty where it is rounding.
    """

    family: str
    parameters: int
    moved: int
    broken: tuple[str, ...]
    largest: float
    allowed: float
    ratio: float
    sentence: str = ""


def family_drifts(old: Golden, new: Golden) -> tuple[FamilyDrift, ...]:
    """How each family of parameters that both goldens name moved, over the units that both have."""
    there, here = matched(old.header.parameters, new.header.parameters)
    units = min(len(old.header.units), len(new.header.units))
    steps = sorted(old.bases.keys() & new.bases.keys())
    parameters = [old.header.parameters[index] for index in there]
    members: dict[str, list[int]] = {}
    for position, parameter in enumerate(parameters):
        members.setdefault(parameter.family, []).append(position)
    distances = [_distances(old.bases[step], new.bases[step], there, here, units) for step in steps]
    return tuple(
        _family(
            family,
            [parameters[position] for position in positions],
            np.concatenate([error[:, positions] for error, _ in distances]),
            np.concatenate([ratio[:, positions] for _, ratio in distances]),
            old.header.noise.get(family, _FLOAT64),
            units,
        )
        for family, positions in members.items()
    )


def _distances(
    old: Basis, new: Basis, there: Sequence[int], here: Sequence[int], units: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """[U, P] relative differences and [U, P] ratios; a gradient where there was none is infinitely far away."""
    error, ratio = np.zeros((units, len(there))), np.ones((units, len(there)))
    for first in range(0, len(there), _ROWS):
        rows = slice(first, first + _ROWS)
        before, after = old.sketch[:units, there[rows]], new.sketch[:units, here[rows]]
        difference = np.linalg.norm(after - before, axis=2)
        # Sketches keep no more of a large tensor than this; the sums of squares tell what they cannot.
        sizes = np.sqrt(old.norm2[:units, there[rows]]), np.sqrt(new.norm2[:units, here[rows]])
        norm = np.linalg.norm(before, axis=2)
        seen = norm > 0
        difference = np.maximum(
            difference, np.where(seen, np.abs(sizes[1] - sizes[0]) * norm / sizes[0].clip(1e-300), 0)
        )
        appeared = np.where((difference > 0) | (sizes[1] > 0), np.inf, 0.0)
        error[:, rows] = np.divide(difference, norm, out=appeared, where=seen)
        ratio[:, rows] = np.divide(np.einsum("upk,upk->up", after, before), norm**2, out=np.ones_like(norm), where=seen)
    return error, ratio


def _family(
    family: str,
    parameters: Sequence[Parameter],
    error: NDArray[np.float64],
    ratio: NDArray[np.float64],
    floor: NoiseFloor,
    units: int,
) -> FamilyDrift:
    """What [steps * U, P] relative differences and ratios of one family come to."""
    elements = np.array([min(parameter.numel, BUCKETS) for parameter in parameters])
    allowed = [tolerance(floor, tests=error.size, elements=float(count)) for count in elements]
    outside = (error > [one.error for one in allowed]) | (np.abs(ratio - 1) > [one.scale for one in allowed])
    off = ratio - 1
    mean, spread = float(off.mean()), float(off.std())
    systematic = _is_systematic(off, error) or abs(mean) > family_scale(
        floor, parameters=len(parameters), elements=float(elements.sum())
    )
    broken = np.flatnonzero(outside.any(axis=0)).tolist()
    if systematic and not broken:
        broken = list(range(len(parameters)))
    names = tuple(parameters[position].name for position in broken)
    sentence = ""
    if broken:
        who = f"{len(broken)} of {len(parameters)} {family} parameters"
        sentence = f"{who} {_how(error[:, broken], ratio[:, broken], outside[:, broken], allowed[broken[0]], units)}"
    return FamilyDrift(
        family=family,
        parameters=len(parameters),
        moved=int((error > 0).any(axis=0).sum()),
        broken=names,
        largest=float(error.max(initial=0.0)),
        allowed=min(one.error for one in allowed),
        ratio=1 + mean if isfinite(spread) else float("nan"),
        sentence=f"{sentence} ({some_names(names)})" if sentence else "",
    )


def _is_systematic(off: NDArray[np.float64], error: NDArray[np.float64]) -> bool:
    """Whether gradients moved along themselves by the same share everywhere, which rounding does not, however little."""
    mean, spread = float(off.mean()), float(off.std())
    size = float(np.sqrt(np.square(error).mean()))
    if off.size < 2 or not isfinite(size) or abs(mean) <= _LEAST_SCALE:
        return False
    return abs(mean) >= size / 2 and abs(mean) > _DEVIATIONS * spread / off.size**0.5


def _how(
    error: NDArray[np.float64], ratio: NDArray[np.float64], outside: NDArray[np.bool_], allowed: Tolerance, units: int
) -> str:
    """What happened to parameters that rounding does not explain, from their differences in [steps * U, P]."""
    if np.isinf(error).any():
        return "have a gradient where there was none"
    factor = float(np.median(ratio))
    left = np.sqrt(np.maximum(np.square(error) - np.square(ratio - 1), 0))
    alike = np.abs(ratio - factor) <= max(allowed.scale, 1e-3 * abs(factor - 1)) * max(1.0, abs(factor))
    if factor != 1 and alike.all() and (left <= max(allowed.error, 1e-3 * abs(factor - 1))).all():
        return f"{_scaled(factor)} in every unit"
    changed = sorted({row % units for row in np.flatnonzero(outside.any(axis=1)).tolist()})
    where = f" in {unit_names(changed, units)}" if len(changed) < units else ""
    return f"differ by up to {float(error.max()):.3g} of their size{where}"


def _scaled(factor: float) -> str:
    if factor == 0:
        return "are zero"
    if abs(factor - 1) > 1e-6:
        return f"are scaled by {factor:.9g}"
    return f"are scaled by 1 {'+' if factor > 1 else '-'} {abs(factor - 1):.2g}"


def unit_names(units: Sequence[int], of: int) -> str:
    """Units by number, at most five of them: `units 0, 3 of 12`."""
    more = f" and {len(units) - 5} more" if len(units) > 5 else ""
    return f"unit{'s' if len(units) != 1 else ''} {', '.join(map(str, units[:5]))}{more} of {of}"


def some_names(names: Sequence[str]) -> str:
    """At most three names, and how many more there are."""
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
