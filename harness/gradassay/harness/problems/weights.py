"""Initial values, each exact in bfloat16, so that a cast to bfloat16 loses nothing.

In a model with experts the hidden space has a Hadamard basis of which one direction stands for each expert. An
embedding carries its token's first and second expert with clearly different strength, a router row is its expert's
direction, and what the blocks write to the residual stream hardly touches these directions: every choice of expert is
decided by design, with margins that no rounding reaches.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import prod, sqrt

import numpy as np
from numpy.typing import NDArray

from gradassay.harness.problems.counter import DEVIATION, bells, hadamard, to_bfloat16
from gradassay.harness.problems.routing import Routes
from gradassay.harness.problems.shape import Shape, Start, Weight

FIRST, SECOND = 1.0, 0.65
"""Strength of a token's first and second expert in its embedding, in units of sqrt(hidden)."""
_ROUTER = 5.0
_DAMPED = 16
_FINE = 1 << 12
_FAINT = 100


class Weights(Mapping[str, NDArray[np.float32]]):
    """Initial values by canonical name, made when asked for."""

    def __init__(self, seed: int, shape: Shape, routes: Routes | None, specs: tuple[Weight, ...]) -> None:
        self._seed, self._shape, self._routes = seed, shape, routes
        self._specs = {spec.name: spec for spec in specs}

    def __iter__(self) -> Iterator[str]:
        return iter(self._specs)

    def __len__(self) -> int:
        return len(self._specs)

    def __getitem__(self, name: str) -> NDArray[np.float32]:
        spec = self._specs[name]
        return to_bfloat16(self._values(spec)).reshape(spec.shape)

    def _values(self, spec: Weight) -> NDArray[np.float64]:
        whole, scale = self._scaled(spec)
        values = whole.astype(np.float64) * scale
        return values + 1 if spec.start == Start.SCALE else values

    def _scaled(self, spec: Weight) -> tuple[NDArray[np.int64], float]:
        """Whole numbers, and what to multiply them by."""
        drawn = bells(self._seed, spec.name, prod(spec.shape)).reshape(spec.shape)
        width = sqrt(spec.shape[-1])
        match spec.start:
            case Start.SCALE | Start.SHIFT:
                return drawn, 0.1 / DEVIATION
            case Start.MATRIX:
                return drawn, spec.gain / DEVIATION / width
            case Start.EMBEDDING:
                return hadamard(self._embedding(drawn, self._routes)), 1 / DEVIATION / width
            case Start.ROUTER:
                return hadamard(self._router(drawn)), _ROUTER / _FINE / width / width
            case Start.POSITION:
                return hadamard(self._damped(drawn)), spec.gain / DEVIATION / width
            case Start.WRITE:
                rotated = hadamard(self._damped(drawn.T)).T
                return rotated, spec.gain / DEVIATION / width / sqrt(spec.shape[0])

    def _damped(self, drawn: NDArray[np.int64]) -> NDArray[np.int64]:
        """[n, hidden] coefficients of what is added to the residual stream: small along the experts' directions."""
        damped = drawn.copy()
        damped[:, 1 : 1 + self._shape.experts] //= _DAMPED
        return damped

    def _embedding(self, drawn: NDArray[np.int64], routes: Routes | None) -> NDArray[np.int64]:
        """[V, hidden] coefficients: content on free directions, the token's two experts, if any, on theirs."""
        if routes is None:
            return drawn
        coefficients = drawn.copy()
        coefficients[:, 1 : 1 + self._shape.experts] = 0
        tokens = np.arange(len(drawn))
        unit = sqrt(self._shape.hidden) * DEVIATION
        coefficients[tokens, 1 + routes.first] = round(FIRST * unit)
        coefficients[tokens, 1 + routes.second] = round(SECOND * unit)
        return coefficients

    def _router(self, drawn: NDArray[np.int64]) -> NDArray[np.int64]:
        """[experts, hidden] coefficients: the expert's own direction, and a little of all others."""
        coefficients: NDArray[np.int64] = drawn * _FINE // (_FAINT * round(DEVIATION))
        experts = np.arange(len(drawn))
        coefficients[experts, 1 + experts] += _FINE
        return coefficients
