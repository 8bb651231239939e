"""Sketches and figures that every rank adds a part to, and that ranks add up at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gradassay.goldens.sketch import BUCKETS
from gradassay.harness.capture.exchange import Exchange
from gradassay.harness.capture.held import Held
from gradassay.harness.capture.measured import look_at


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """By row. sketch: [n, 1024] float64. norm2: [n] sums of squares. absmax: [n] largest magnitudes. nonfinite: [n] counts."""

    sketch: NDArray[np.float64]
    norm2: NDArray[np.float64]
    absmax: NDArray[np.float64]
    nonfinite: NDArray[np.int64]


class Sums:
    """`count` rows. One array holds sketch, sum of squares, non-finite count and each rank's largest magnitude of all of
    them, so that it takes one all-reduce, and a capture keeps a part of it, so that nothing is there twice.
    """

    def __init__(self, count: int, exchange: Exchange) -> None:
        self._count, self._exchange = count, exchange
        self._numbers = np.zeros(count * (BUCKETS + 2 + exchange.size))
        self._totals = np.zeros((count, 3))

    def add(self, pieces: Sequence[Held], rows: Sequence[int | None], *, told: Sequence[bool]) -> list[int]:
        """What `look_at` does with these rows, and gives."""
        sketches, _ = self._parts(self._numbers)
        return look_at(pieces, rows, sketches, self._totals, told=told)

    def over_ranks(self) -> Figures:
        """What all ranks together have added; collective, once."""
        _, facts = self._parts(self._numbers)
        facts[:, :2], facts[:, 2 + self._exchange.rank] = self._totals[:, (0, 2)], self._totals[:, 1]
        sketches, facts = self._parts(self._exchange.add(self._numbers))
        return Figures(
            sketch=sketches,
            norm2=facts[:, 0].copy(),
            absmax=facts[:, 2:].max(axis=1),
            nonfinite=facts[:, 1].astype(np.int64),
        )

    def _parts(self, numbers: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Views of [n, 1024] sketches and [n, 2 + ranks] facts."""
        bound = self._count * BUCKETS
        return numbers[:bound].reshape(self._count, BUCKETS), numbers[bound:].reshape(self._count, -1)
