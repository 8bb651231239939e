"""Shapes read off solved weights."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from gradassay.goldens.assay.scale import Scale
from gradassay.goldens.assay.shapes.geometric import Geometric
from gradassay.goldens.assay.shapes.protocol import Shape
from gradassay.goldens.assay.shapes.subset import Subset
from gradassay.goldens.layout import Layout


def read_shapes(weights: NDArray[np.float64], layout: Layout, *, tolerance: float) -> Iterator[Shape]:
    """Shapes read off solved weights [dp, accum] (NaN where unobserved): two levels by micro step or by rank, any ratio."""
    for of_ranks, size in ((False, layout.accum), (True, layout.dp)):
        lines = weights if of_ranks else weights.T
        if size < 2 or np.isnan(lines).all(axis=1).any():
            continue
        spread = np.nanmax(lines, axis=1) - np.nanmin(lines, axis=1)
        levels = np.nanmean(lines, axis=1)
        largest = np.abs(levels).max()
        if largest == 0 or (spread > tolerance * largest).any():
            continue
        yield from _two_levels(levels, layout, of_ranks=of_ranks, tolerance=tolerance * largest)
        if not of_ranks and (np.abs(levels) > tolerance * largest).all() and size > 2:
            yield from _geometric(levels, tolerance)


def _two_levels(levels: NDArray[np.float64], layout: Layout, *, of_ranks: bool, tolerance: float) -> Iterator[Shape]:
    order = np.argsort(levels)
    gaps = np.diff(levels[order])
    cut = int(np.argmax(gaps)) + 1
    low, high = levels[order[:cut]], levels[order[cut:]]
    if np.ptp(low) > tolerance or np.ptp(high) > tolerance or gaps.max() <= tolerance:
        return
    for inside, rest in ((order[cut:], low.mean()), (order[:cut], high.mean())):
        members = tuple(sorted(int(member) for member in inside))
        level = levels[list(members)].mean()
        if abs(level) <= tolerance:
            continue
        name = _group_name(members, layout) if of_ranks else ""
        if abs(rest) <= tolerance:
            yield Subset(members, of_ranks, name=name)
        elif len(members) * 2 <= len(levels):
            yield Subset(members, of_ranks, inside=_plain(level / rest), elsewhere=1.0, name=name)


def _plain(ratio: float) -> float:
    """A ratio as the whole number, or its inverse, that it is within a thousandth."""
    for candidate in (round(ratio), 1 / round(1 / ratio) if round(1 / ratio) else 0.0):
        if candidate and abs(ratio / candidate - 1) < 1e-3:
            return float(candidate)
    return float(ratio)


def _group_name(members: tuple[int, ...], layout: Layout) -> str:
    if members == tuple(layout.ep_group(members[0])) and 1 < layout.ep < layout.dp:
        return "one expert-parallel group"
    if members == tuple(layout.edp_group(members[0])) and 1 < layout.edp < layout.dp:
        return "one expert-data-parallel group"
    shard = layout.dp // layout.replicate
    if layout.replicate > 1 and members == tuple(range(members[0], members[0] + shard)) and members[0] % shard == 0:
        return "one replica"
    return ""


def _geometric(levels: NDArray[np.float64], tolerance: float) -> Iterator[Shape]:
    ratios = [after / before for before, after in pairwise(levels.tolist())]
    ratio = float(np.mean(ratios))
    if ratio <= 0 or abs(ratio - 1) < 10 * tolerance or max(abs(r / ratio - 1) for r in ratios) > 10 * tolerance:
        return
    base = max(ratio, 1 / ratio)
    if abs(base - round(base)) <= 10 * tolerance * base:
        base = float(round(base))
    yield Geometric(Scale(constant=base), rising=ratio > 1)
