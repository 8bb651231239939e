"""The linear system of one parameter: measured = sum over units of w[u] * c_true[u] * g[u], reduced to the units' span."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt

import numpy as np
from numpy.typing import NDArray

from gradassay.goldens.assay.noise import Tolerance
from gradassay.goldens.assay.shapes import Place, Setting, Shape
from gradassay.goldens.header import Parameter
from gradassay.goldens.layout import Layout
from gradassay.goldens.sketch import BUCKETS, SEGMENTS, segment_elements


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """What one owner holds of a parameter, rotated into the span of the units.

    triangle: [k, U]. target: [k]. beyond: squared norm of the part of the measured gradient outside the span.
    """

    place: Place
    triangle: NDArray[np.float64]
    target: NDArray[np.float64]
    beyond: float

    @property
    def norm2(self) -> float:
        """Squared norm of the measured gradient here."""
        return float(self.target @ self.target) + self.beyond


@dataclass(frozen=True, slots=True, kw_only=True)
class Fit:
    """How a shape explains one parameter: the scale that fits best, and the relative residual it leaves."""

    scale: float
    residual: float


@dataclass(frozen=True, slots=True, kw_only=True)
class System:
    """One parameter: its blocks, and what honest rounding leaves of it. copied: a block is one rank's copy of the whole."""

    index: int
    parameter: Parameter
    tolerance: Tolerance
    blocks: tuple[Block, ...]
    copied: bool = False

    @property
    def owned(self) -> bool:
        """Whether what each rank holds is known."""
        return any(block.place.owner is not None for block in self.blocks)

    def fit(self, shape: Shape, setting: Setting) -> Fit | None:
        """The best scale of a shape; None where the shape says nothing about this parameter.

        A shape that differs from owner to owner is judged by the blocks that have one.
        """
        predicted: list[NDArray[np.float64]] = []
        judged: list[Block] = []
        for block in self.blocks:
            weights = shape.weights(setting, block.place)
            if weights is not None:
                predicted.append(block.triangle @ weights.T.ravel())
                judged.append(block)
            elif block.place.owner is not None or not self.owned:
                return None
        norm2 = sum(float(part @ part) for part in predicted)
        if norm2 == 0:
            return None
        scale = sum(float(p @ block.target) for p, block in zip(predicted, judged, strict=True)) / norm2
        left = sum(
            block.beyond + float(np.sum((block.target - scale * part) ** 2))
            for part, block in zip(predicted, judged, strict=True)
        )
        return Fit(scale=scale, residual=sqrt(left / norm2) / abs(scale) if scale else np.inf)


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
    own copy where ranks hold copies that differ (zero rows elsewhere), else None.
    """
    blocks: list[Block] = []
    if copies is not None:
        for rank in np.flatnonzero(np.any(copies != 0, axis=1)).tolist():
            blocks.append(_block(Place(rank, parameter.stage), units, copies[rank]))
    else:
        for owner, buckets in _owned_buckets(parameter):
            if buckets.any() and (units[:, buckets].any() or measured[buckets].any()):
                blocks.append(_block(Place(owner, parameter.stage), units[:, buckets], measured[buckets]))
    return System(
        index=index, parameter=parameter, tolerance=tolerance, blocks=tuple(blocks), copied=copies is not None
    )


def _block(place: Place, units: NDArray[np.float64], measured: NDArray[np.float64]) -> Block:
    basis, triangle = np.linalg.qr(units.T)
    target = basis.T @ measured
    outside = measured - basis @ target
    return Block(place=place, triangle=triangle, target=target, beyond=float(outside @ outside))


def _owned_buckets(parameter: Parameter) -> list[tuple[int | None, NDArray[np.bool_]]]:
    """Buckets whose elements all lie in one rank's shard, by rank, and (None) the rest."""
    if not parameter.shards or len({rank for rank, first, end in parameter.shards if end > first}) < 2:
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


def solve(systems: Sequence[System], layout: Layout, *, owner: int | None = None, noise: float) -> Solution:
    """Weights by least squares over all systems, each counted relative to its own norm; directions unseen are NaN.

    owner: only what this rank owns. noise: relative error of an honest gradient, for the standard error.
    """
    rows, targets, beyond = [], [], 0.0
    for system in systems:
        blocks = [block for block in system.blocks if owner is None or block.place.owner == owner]
        norm = sqrt(sum(block.norm2 for block in blocks))
        if norm == 0:
            continue
        rows += [block.triangle / norm for block in blocks]
        targets += [block.target / norm for block in blocks]
        beyond += sum(block.beyond for block in blocks) / norm**2
    if not rows:
        return Solution(weights=np.full((layout.dp, layout.accum), np.nan), stderr=np.nan, residual=np.nan)
    matrix, target = np.concatenate(rows), np.concatenate(targets)
    left, values, right = np.linalg.svd(matrix, full_matrices=False)
    kept = values > max(values.max(initial=0.0) * 1e-9, 0.0)
    right, values, left = right[kept], values[kept], left[:, kept]
    solved = right.T @ ((left.T @ target) / values)
    seen = np.sum(right**2, axis=0)
    solved[seen < 1 - 1e-6] = np.nan
    outside = target - left @ (left.T @ target)
    residual2 = (float(outside @ outside) + beyond) / len(systems)
    spread = max(noise, sqrt(residual2)) * np.sqrt(np.sum((right.T / values) ** 2, axis=1) / BUCKETS)
    observed = ~np.isnan(solved)
    return Solution(
        weights=solved.reshape(layout.accum, layout.dp).T,
        stderr=float(spread[observed].max(initial=0.0)),
        residual=sqrt(residual2),
    )
