"""The linear system of one parameter: measured = sum over units of w[u] * c_true[u] * g[u], reduced to the units' span."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite, log2, sqrt

import numpy as np
from numpy.typing import NDArray

from gradassay.goldens.assay.noise import Tolerance
from gradassay.goldens.assay.shapes import Place
from gradassay.goldens.header import Parameter
from gradassay.goldens.layout import Layout
from gradassay.goldens.sketch import BUCKETS, SEGMENTS, segment_elements

# A law is accepted where it leaves no more than this many times what an honest run would.
FIT_MARGIN = 2.0
# Rounding is judged by the numbers that weights on units cannot account for where there are so many.
LEAST_OUTSIDE = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """What one owner holds of a parameter, rotated into the span of the units.

    triangle: [k, U]. target: [k]. beyond: squared norm of the part of the measured gradient outside the span.
    numbers: how many of the sketch's numbers it has.
    """

    place: Place
    triangle: NDArray[np.float64]
    target: NDArray[np.float64]
    beyond: float
    numbers: int

    @property
    def norm2(self) -> float:
        """Squared norm of the measured gradient here."""
        return float(self.target @ self.target) + self.beyond

    @property
    def rank(self) -> int:
        """How many numbers weights on the units can account for at most."""
        return min(self.numbers, int(self.triangle.shape[1]))


@dataclass(frozen=True, slots=True, kw_only=True)
class System:
    """One parameter: its blocks, and what honest rounding leaves of it. copied: each is one rank's copy of the whole."""

    index: int
    parameter: Parameter
    tolerance: Tolerance
    blocks: tuple[Block, ...]
    copied: bool = False

    @property
    def owned(self) -> bool:
        """Whether what each rank holds is known."""
        return any(block.place.owner is not None for block in self.blocks)

    @property
    def precision_bits(self) -> float:
        """How precisely one number of an honest gradient is known."""
        return max((self._bits(block) for block in self.blocks), default=0.0)

    @property
    def evidence_bits(self) -> float:
        """What a wrong law would have to get right by luck: the precision of every number that weights account for.

        Copies of a number count once.
        """
        bits = [block.rank * self._bits(block) for block in self.blocks]
        most = self.parameter.numel * self.precision_bits
        return min(sum(bits), most) if self.copied else sum(bits)

    def _bits(self, block: Block) -> float:
        """Precision of one direction, over which rounding spreads only where there are more numbers than weights."""
        spread = sqrt(block.numbers) if block.numbers - block.rank >= LEAST_OUTSIDE else 1.0
        return -log2(min(0.5, FIT_MARGIN * self.tolerance.error / spread))


def build_system(
    index: int,
    parameter: Parameter,
    tolerance: Tolerance,
    units: NDArray[np.float64],
    measured: NDArray[np.float64],
    copies: NDArray[np.float64] | None,
) -> System:
    """The system of one parameter.

    units: [U, 1024], every unit's gradient times its true coefficient. measured: [1024]. copies: [R, 1024], each rank's
    own copy where copies differ or one rank alone holds it (zero rows elsewhere), else None.
    """
    blocks: list[Block] = []
    if copies is not None:
        for rank, buckets in _copied_buckets(parameter, copies):
            if units[:, buckets].any() or copies[rank, buckets].any():
                blocks.append(_block(Place(rank, parameter.stage), units[:, buckets], copies[rank, buckets]))
    else:
        for owner, buckets in _owned_buckets(parameter):
            # A mask would copy all of them.
            where = slice(None) if buckets.all() else buckets
            own, gradient = units[:, where], measured[where]
            if own.any() or gradient.any():
                blocks.append(_block(Place(owner, parameter.stage), own, gradient))
    return System(
        index=index,
        parameter=parameter,
        tolerance=tolerance,
        blocks=tuple(blocks),
        copied=copies is not None and len(blocks) > 1,
    )


def _block(place: Place, units: NDArray[np.float64], measured: NDArray[np.float64]) -> Block:
    # What was measured goes along as one more column: its part within the units' span and what is beyond come out of the same
    # reflections, which takes half as long as to form the basis.
    count = len(units)
    reduced = np.asarray(np.linalg.qr(np.concatenate((units, measured[None])).T, mode="r"))
    return Block(
        place=place,
        triangle=reduced[:count, :count],
        target=reduced[:count, count],
        beyond=float(reduced[count, count] ** 2) if len(reduced) > count else 0.0,
        numbers=int(np.count_nonzero(measured.astype(bool) | units.any(axis=0))),
    )


def _owned_buckets(parameter: Parameter) -> list[tuple[int | None, NDArray[np.bool_]]]:
    """Buckets whose elements all lie in one rank's shard, by rank, and (None) the rest."""
    if not parameter.shards:
        return [(None, np.ones(BUCKETS, dtype=bool))]
    whole = parameter.numel <= BUCKETS
    bounds = np.arange(BUCKETS + 1) if whole else segment_elements(parameter.numel)
    owners = np.full(len(bounds) - 1, -1)
    for rank, merged in _merged(parameter.shards).items():
        for first, end in merged:
            inside = (bounds[:-1] >= first) & (bounds[1:] <= end) & (bounds[1:] > bounds[:-1])
            owners[inside & (owners == -1)] = rank
    if not whole:
        owners = np.repeat(owners, BUCKETS // SEGMENTS)
    found: list[tuple[int | None, NDArray[np.bool_]]] = [
        (int(rank), owners == rank) for rank in np.unique(owners) if rank >= 0
    ]
    return [*found, (None, owners == -1)]


def _copied_buckets(parameter: Parameter, copies: NDArray[np.float64]) -> list[tuple[int, NDArray[np.bool_]]]:
    """Buckets that each rank holds of its copy, by rank: all, or where a copy is spread over ranks those of its shard.

    The shards are those of the first copy; the others are spread alike, over as many ranks in the same order.
    """
    holders = np.flatnonzero(np.any(copies != 0, axis=1)).tolist()
    owners = sorted({rank for rank, first, end in parameter.shards or () if end > first})
    groups = [holders[first : first + len(owners)] for first in range(0, len(holders), max(len(owners), 1))]
    if len(owners) < 2 or not all(
        len(group) == len(owners) and np.all(copies[group] == copies[group[0]]) for group in groups
    ):
        return [(rank, np.ones(BUCKETS, dtype=bool)) for rank in holders]
    owned = {owner: buckets for owner, buckets in _owned_buckets(parameter) if owner is not None}
    return [
        (rank, owned[owner]) for group in groups for rank, owner in zip(group, owners, strict=True) if owner in owned
    ]


def _merged(shards: Sequence[tuple[int, int, int]]) -> dict[int, list[tuple[int, int]]]:
    merged: dict[int, list[tuple[int, int]]] = {}
    for rank, first, end in sorted(shards):
        ranges = merged.setdefault(rank, [])
        if ranges and ranges[-1][1] == first:
            ranges[-1] = (ranges[-1][0], end)
        else:
            ranges.append((first, end))
    return merged


@dataclass(frozen=True, slots=True, kw_only=True)
class Solution:
    """Weights [dp, accum] of some parameters together (NaN where unobserved), their largest standard error, the residual."""

    weights: NDArray[np.float64]
    stderr: float
    residual: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Lines:
    """One weight a micro step [accum] or a rank [dp], as if it were that of all its units (NaN where unobserved).

    stderr: of each of them. residual: relative.
    """

    levels: NDArray[np.float64]
    stderr: NDArray[np.float64]
    residual: float


def solve(systems: Sequence[System], layout: Layout, *, owner: int | None = None, noise: float) -> Solution:
    """Weights by least squares over all systems, each counted relative to its own norm; directions unseen are NaN.

    owner: only what this rank owns. noise: relative error of an honest gradient, for the standard error.
    """
    solved, stderr, residual = _least_squares(systems, np.eye(layout.units), owner=owner, noise=noise)
    worst = float(stderr[~np.isnan(solved)].max(initial=0.0)) if isfinite(residual) else np.nan
    return Solution(weights=solved.reshape(layout.accum, layout.dp).T, stderr=worst, residual=residual)


def solve_lines(systems: Sequence[System], layout: Layout, *, of_ranks: bool, noise: float) -> Lines:
    """Weights that may differ from rank to rank only, or from micro step to micro step only; arguments as in `solve`."""
    units = np.arange(layout.units)
    lines = np.eye(layout.dp)[units % layout.dp] if of_ranks else np.eye(layout.accum)[units // layout.dp]
    levels, stderr, residual = _least_squares(systems, lines, owner=None, noise=noise)
    return Lines(levels=levels, stderr=stderr, residual=residual)


def _least_squares(
    systems: Sequence[System], groups: NDArray[np.float64], *, owner: int | None, noise: float
) -> tuple[NDArray[np.float64], NDArray[np.float64], float]:
    """One weight for each column of groups [U, n], the standard error of each, and the relative residual."""
    rows, targets = [np.empty((0, groups.shape[1]))], [np.empty(0)]
    measured: list[tuple[list[Block], float]] = []
    for system in systems:
        blocks = [block for block in system.blocks if owner is None or block.place.owner == owner]
        norm2 = sum(block.norm2 for block in blocks)
        if norm2 == 0:
            continue
        measured.append((blocks, norm2))
        precision = sqrt(sum(block.numbers for block in blocks) / norm2)
        rows += [block.triangle @ groups * precision for block in blocks]
        targets += [block.target * precision for block in blocks]
    matrix, target = np.concatenate(rows), np.concatenate(targets)
    if not len(matrix):
        return np.full(groups.shape[1], np.nan), np.full(groups.shape[1], np.nan), np.nan
    left, values, right = np.linalg.svd(matrix, full_matrices=False)
    kept = values > max(values.max(initial=0.0) * 1e-9, 0.0)
    right, values, left = right[kept], values[kept], left[:, kept]
    solved = right.T @ ((left.T @ target) / values)
    residual2 = 0.0
    for blocks, norm2 in measured:
        outside = sum(b.beyond + float(np.sum((b.target - b.triangle @ (groups @ solved)) ** 2)) for b in blocks)
        residual2 += outside / norm2 / len(measured)
    solved[np.sum(right**2, axis=0) < 1 - 1e-6] = np.nan
    spread = max(noise, sqrt(residual2)) * np.sqrt(np.sum((right.T / values) ** 2, axis=1))
    return solved, spread, sqrt(residual2)
