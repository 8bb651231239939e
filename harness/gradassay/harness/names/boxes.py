"""Any runs of a tensor as few axis-aligned boxes of it."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Boxes:
    """Boxes of a tensor whose values lie one after the other, each in its own row-major order.

    origin, extent: [n, axes] int64, first index and size along every axis. before: [n], how many values come before.
    """

    origin: Numbers
    extent: Numbers
    before: Numbers


def boxes(runs: Numbers, sizes: tuple[int, ...]) -> Boxes:
    """The runs [n, 2] of a row-major tensor of these sizes as boxes, their values in the order of the runs.

    A run comes to at most 2 * axes - 1 boxes; those that are regular, such as the rows of a block, become one.
    """
    runs = runs[runs[:, 1] > 0].astype(np.int64)
    start, stop = runs[:, 0], runs.sum(axis=1)
    before = np.cumsum(runs[:, 1]) - runs[:, 1]
    found = []
    # From the inner axis outwards: what is no whole row is a box, the whole rows are single elements one axis further out.
    for axis in range(len(sizes) - 1, 0, -1):
        size, scale = sizes[axis], prod(sizes[axis + 1 :])
        low, high = -(-start // size) * size, stop // size * size
        inside = low > high
        ends = [
            (start, np.where(inside, stop, low), before),
            (np.where(inside, stop, high), stop, before + (high - start) * scale),
        ]
        found += [_within(axis, sizes, first, last, offset) for first, last, offset in ends]
        rows = low < high
        before = (before + (low - start) * scale)[rows]
        start, stop = low[rows] // size, high[rows] // size
    found.append(_within(0, sizes, start, stop, before))
    origin, extent, before = (np.concatenate([part[field] for part in found]) for field in range(3))
    order = np.argsort(before, kind="stable")
    merged = Boxes(origin=origin[order], extent=extent[order], before=before[order])
    for axis in range(len(sizes) - 1, -1, -1):
        merged = _merged(merged, axis)
    return merged


def _within(
    axis: int, sizes: tuple[int, ...], start: Numbers, stop: Numbers, before: Numbers
) -> tuple[Numbers, Numbers, Numbers]:
    """Boxes of [start, stop), not empty and each within one row of `axis`, counted in whole rows of the axes inside it."""
    some = start < stop
    origin = np.zeros((int(some.sum()), len(sizes)), dtype=np.int64)
    extent = np.tile(np.array([1] * axis + [0, *sizes[axis + 1 :]], dtype=np.int64), (len(origin), 1))
    extent[:, axis] = (stop - start)[some]
    left = start[some]
    for outer in range(axis, 0, -1):
        left, origin[:, outer] = np.divmod(left, sizes[outer])
    origin[:, 0] = left
    return origin, extent, before[some]


def _merged(apart: Boxes, axis: int) -> Boxes:
    """Neighbours that continue each other along `axis` as one; called for the inner axes first.

    Then boxes that can continue each other are of extent 1 outside `axis`, so that their values, one box after the
    other, are in the row-major order of both together: whatever extends further out is whole along `axis`.
    """
    origin, extent = apart.origin, apart.extent
    if len(origin) < 2:
        return apart
    others = np.arange(origin.shape[1]) != axis
    linked = (
        (origin[1:, others] == origin[:-1, others]).all(axis=1)
        & (extent[1:, others] == extent[:-1, others]).all(axis=1)
        & (origin[1:, axis] == origin[:-1, axis] + extent[:-1, axis])
    )
    firsts = np.flatnonzero(np.concatenate(([True], ~linked)))
    together = extent[firsts]
    together[:, axis] = np.add.reduceat(extent[:, axis], firsts)
    return Boxes(origin=origin[firsts], extent=together, before=apart.before[firsts])
