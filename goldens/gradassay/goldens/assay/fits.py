"""How shapes explain many parameters at once."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gradassay.goldens.assay.shapes import Place, Setting, Shape
from gradassay.goldens.assay.system import FIT_MARGIN, LEAST_OUTSIDE, Block, System

# A law is accepted where it leaves no more than so many times the rounding that is seen in other directions in those in
# which weights on units could have explained what it leaves. Rounding prefers these: gradients of attention's queries and
# keys, with units of few tokens weighed up, were seen to leave 5.5 times as much.
_WITHIN_MARGIN = 6.0
_CLOSE_MARGIN = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Fits:
    """The best scale of one shape for each of P parameters, and the relative residual that it leaves: [P].

    Both are NaN where the shape says nothing about a parameter. accepted: [P] bool, whether no more is left than rounding
    may leave, in all and in what other weights would account for. close: [P] bool, whether what other weights would account
    for is, where it can be seen, no more than the rounding in other directions.
    """

    scale: NDArray[np.float64]
    residual: NDArray[np.float64]
    accepted: NDArray[np.bool_]
    close: NDArray[np.bool_]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Stack:
    """Blocks at one place. systems: [n] whose they are. triangles: [n, k, U]. targets: [n, k]. others: [n] as in Block."""

    systems: NDArray[np.int64]
    triangles: NDArray[np.float64]
    targets: NDArray[np.float64]
    beyond: NDArray[np.float64]
    ranks: NDArray[np.float64]
    outside: NDArray[np.float64]


class Fitter:
    """Fits shapes to the same parameters again and again; what was fitted is kept."""

    def __init__(self, systems: Sequence[System], setting: Setting) -> None:
        self._setting = setting
        self._error = np.array([system.tolerance.error for system in systems])
        self._along = np.array([system.tolerance.scale for system in systems])
        self._owned = np.array([system.owned for system in systems], dtype=bool)
        blocks: dict[Place, list[tuple[int, Block]]] = defaultdict(list)
        for number, system in enumerate(systems):
            for block in system.blocks:
                blocks[block.place].append((number, block))
        self._stacks = {place: _stacked(members) for place, members in blocks.items()}
        self._found: dict[Shape, Fits] = {}

    def fit(self, shape: Shape) -> Fits:
        """The fits of a shape; one that differs from owner to owner is judged by the blocks that have one."""
        if shape not in self._found:
            self._found[shape] = self._fit(shape)
        return self._found[shape]

    def _fit(self, shape: Shape) -> Fits:
        count = len(self._error)
        silent = np.zeros(count, dtype=bool)
        judged: list[tuple[_Stack, NDArray[np.float64]]] = []
        for place, stack in self._stacks.items():
            weights = shape.weights(self._setting, place)
            if weights is not None:
                judged.append((stack, stack.triangles @ weights.T.ravel()))
            elif place.owner is not None:
                silent[stack.systems] = True
            else:
                silent[stack.systems[~self._owned[stack.systems]]] = True

        def total(parts: list[NDArray[np.float64]]) -> NDArray[np.float64]:
            sums = np.zeros(count)
            for (stack, _), part in zip(judged, parts, strict=True):
                np.add.at(sums, stack.systems, part)
            return sums

        norm2 = total([np.einsum("nk,nk->n", part, part) for _, part in judged])
        along = total([np.einsum("nk,nk->n", part, stack.targets) for stack, part in judged])
        silent |= norm2 == 0
        scale = np.divide(along, norm2, out=np.full(count, np.nan), where=~silent)
        left = [stack.targets - scale[stack.systems, None] * part for stack, part in judged]
        within = total([np.einsum("nk,nk->n", part, part) for part in left])
        beyond = total([stack.beyond for stack, _ in judged])
        outside = total([stack.outside for stack, _ in judged])
        expected = beyond * total([stack.ranks for stack, _ in judged]) / np.maximum(outside, 1)
        size = np.abs(scale) * np.sqrt(norm2)
        size[size == 0] = np.nan
        residual, within = np.sqrt(beyond + within) / size, np.sqrt(within) / size
        rounding, judged_by = np.sqrt(expected) / size, outside >= LEAST_OUTSIDE
        allowed = np.maximum(_WITHIN_MARGIN * rounding, FIT_MARGIN * self._along)
        return Fits(
            scale=scale,
            residual=residual,
            accepted=(residual <= FIT_MARGIN * self._error) & (~judged_by | (within <= allowed)),
            close=~judged_by | (within <= _CLOSE_MARGIN * rounding),
        )


def _stacked(members: Sequence[tuple[int, Block]]) -> _Stack:
    rows = max(len(block.target) for _, block in members)
    triangles = np.zeros((len(members), rows, members[0][1].triangle.shape[1]))
    targets = np.zeros((len(members), rows))
    for place, (_, block) in enumerate(members):
        triangles[place, : len(block.target)] = block.triangle
        targets[place, : len(block.target)] = block.target
    return _Stack(
        systems=np.array([number for number, _ in members]),
        triangles=triangles,
        targets=targets,
        beyond=np.array([block.beyond for _, block in members]),
        ranks=np.array([float(block.rank) for _, block in members]),
        outside=np.array([float(block.numbers - block.rank) for _, block in members]),
    )
