"""Shapes read off solved weights."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from gradassay.goldens.assay.scale import Scale, matching
from gradassay.goldens.assay.shapes.geometric import Geometric
from gradassay.goldens.assay.shapes.protocol import Setting, Shape
from gradassay.goldens.assay.shapes.subset import Subset
from gradassay.goldens.layout import Layout

# Weights are told apart where they differ by more than this many standard errors, or this share of the largest.
_DEVIATIONS = 5.0
_LEAST_UNCERTAIN = 1e-6
_NEAREST = 4
_NEARLY_NOTHING = 0.01


def read_shapes(
    levels: NDArray[np.float64], setting: Setting, *, of_ranks: bool, stderr: NDArray[np.float64]
) -> Iterator[Shape]:
    """Shapes read off one weight a rank [dp] or a micro step [accum]: two levels of any ratio, or a geometric series.

    stderr: of each weight.
    """
    if len(levels) < 2 or np.isnan(levels).any() or not levels.any():
        return
    uncertain = np.maximum(_DEVIATIONS * stderr, _LEAST_UNCERTAIN * np.abs(levels).max())
    yield from _two_levels(levels, setting, of_ranks=of_ranks, uncertain=uncertain)
    if not of_ranks and len(levels) > 2 and (np.abs(levels) > uncertain).all():
        yield from _geometric(levels, float(uncertain.max()))


def _two_levels(
    levels: NDArray[np.float64], setting: Setting, *, of_ranks: bool, uncertain: NDArray[np.float64]
) -> Iterator[Shape]:
    order = np.argsort(levels)
    gaps = np.diff(levels[order])
    cut = int(np.argmax(gaps)) + 1
    parts = (order[:cut], order[cut:])
    allowed = max(float(uncertain.max()), float(gaps.max()) / 4)
    if any(np.ptp(levels[part]) > allowed for part in parts):
        return
    for inside, others in (parts, parts[::-1]):
        members = tuple(sorted(inside.tolist()))
        name = _group_name(members, setting.layout) if of_ranks else ""
        level, level_uncertain = _mean(levels[inside], uncertain[inside])
        rest, rest_uncertain = _mean(levels[others], uncertain[others])
        if abs(level) <= level_uncertain:
            continue
        # Rounding moves levels by more than their standard errors say; whether nothing fits is decided by the fit.
        if abs(rest) <= max(rest_uncertain, _NEARLY_NOTHING * abs(level)):
            yield Subset(members, of_ranks, name=name)
        if abs(rest) > rest_uncertain and len(members) * 2 <= len(levels):
            within = level_uncertain / abs(level) + rest_uncertain / abs(rest)
            for scale in _ratios(abs(level / rest), setting, relative_tolerance=within):
                yield Subset(members, of_ranks, ratio=scale, negative=level / rest < 0, name=name)


def _mean(levels: NDArray[np.float64], uncertain: NDArray[np.float64]) -> tuple[float, float]:
    """The mean of levels, each counted by its precision, and how far it may be off."""
    precision = 1 / uncertain**2
    return float(np.average(levels, weights=precision)), float(precision.sum() ** -0.5)


def _ratios(ratio: float, setting: Setting, *, relative_tolerance: float) -> list[Scale]:
    """The few scales nearest to a ratio, each number by its shortest text, and the ratio as it is."""
    wholes = [float(whole) for whole in {round(ratio), round(1 / ratio)} if whole > 1]
    found = matching(ratio, setting.values, relative_tolerance=relative_tolerance)
    found += [Scale(constant=number) for whole in wholes for number in (whole, 1 / whole)]
    shortest: dict[float, Scale] = {}
    for scale in sorted(found, key=Scale.bits):
        value = scale.value(setting.values)
        if value != 1.0 and abs(value / ratio - 1) <= relative_tolerance:
            shortest.setdefault(round(value, 12), scale)
    nearest = sorted(shortest.values(), key=lambda scale: abs(scale.value(setting.values) / ratio - 1))
    return [*nearest[:_NEAREST], Scale(constant=ratio)]


def _group_name(members: tuple[int, ...], layout: Layout) -> str:
    if members == tuple(layout.ep_group(members[0])) and 1 < layout.ep < layout.dp:
        return "one expert-parallel group"
    if members == tuple(layout.edp_group(members[0])) and 1 < layout.edp < layout.dp:
        return "one expert-data-parallel group"
    shard = layout.dp // layout.replicate
    if layout.replicate > 1 and members == tuple(range(members[0], members[0] + shard)) and members[0] % shard == 0:
        return "one replica"
    return ""


def _geometric(levels: NDArray[np.float64], uncertain: float) -> Iterator[Shape]:
    ratios = [after / before for before, after in pairwise(levels.tolist())]
    ratio = float(np.median(ratios))
    allowed = 2 * uncertain / float(np.abs(levels).min())
    if ratio <= 0 or abs(ratio - 1) < allowed or max(abs(r / ratio - 1) for r in ratios) > allowed:
        return
    base = max(ratio, 1 / ratio)
    if abs(base - round(base)) <= allowed * base:
        base = float(round(base))
    yield Geometric(Scale(constant=base), rising=ratio > 1)
