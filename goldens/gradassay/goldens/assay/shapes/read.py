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


def read_shapes(levels: NDArray[np.float64], setting: Setting, *, of_ranks: bool, stderr: float) -> Iterator[Shape]:
    """Shapes read off one weight a rank [dp] or a micro step [accum]: two levels of any ratio, or a geometric series."""
    if len(levels) < 2 or np.isnan(levels).any() or not levels.any():
        return
    uncertain = max(_DEVIATIONS * stderr, _LEAST_UNCERTAIN * float(np.abs(levels).max()))
    yield from _two_levels(levels, setting, of_ranks=of_ranks, uncertain=uncertain)
    if not of_ranks and len(levels) > 2 and (np.abs(levels) > uncertain).all():
        yield from _geometric(levels, uncertain)


def _two_levels(levels: NDArray[np.float64], setting: Setting, *, of_ranks: bool, uncertain: float) -> Iterator[Shape]:
    order = np.argsort(levels)
    gaps = np.diff(levels[order])
    cut = int(np.argmax(gaps)) + 1
    low, high = levels[order[:cut]], levels[order[cut:]]
    gap = float(gaps.max())
    if gap <= uncertain or max(np.ptp(low), np.ptp(high)) > max(uncertain, gap / 4):
        return
    for inside, rest in ((order[cut:], float(low.mean())), (order[:cut], float(high.mean()))):
        members = tuple(sorted(int(member) for member in inside))
        level = float(levels[list(members)].mean())
        name = _group_name(members, setting.layout) if of_ranks else ""
        if abs(rest) <= uncertain:
            yield Subset(members, of_ranks, name=name)
        elif abs(level) > uncertain and len(members) * 2 <= len(levels):
            ratio = level / rest
            scale = _ratio(abs(ratio), setting, relative_tolerance=uncertain / abs(level) + uncertain / abs(rest))
            yield Subset(members, of_ranks, ratio=scale, negative=ratio < 0, name=name)


def _ratio(ratio: float, setting: Setting, *, relative_tolerance: float) -> Scale:
    """The shortest scale near the ratio, a whole number or the inverse of one, or the number as it is."""
    named = matching(ratio, setting.values, relative_tolerance=relative_tolerance)
    if named and named[0] != Scale():
        return named[0]
    for whole in (float(round(ratio)), 1 / round(1 / ratio) if round(1 / ratio) else 0.0):
        if whole not in (0.0, 1.0) and abs(ratio / whole - 1) <= relative_tolerance:
            return Scale(constant=whole)
    return Scale(constant=ratio)


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
