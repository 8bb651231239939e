"""The data of every unit: its own tokens and its own targets, so that no unit's gradient resembles another's."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gradassay.harness.problems.counter import below, shuffled
from gradassay.harness.problems.protocol import IGNORED
from gradassay.harness.problems.routing import Routes

_PALETTE = 12
"""Pairs of tokens, or tokens, that a unit draws from; and targets."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UnitData:
    """One unit's token ids and targets, [sequences, length] int64 each; IGNORED targets do not count."""

    inputs: NDArray[np.int64]
    targets: NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Data:
    """How units are drawn. ragged: units count from 1 to nearly all of their tokens, unevenly, in their loss."""

    seed: int
    units: int
    vocabulary: int
    sequences: int
    length: int
    routes: Routes | None = None
    ragged: bool = False

    @property
    def size(self) -> int:
        """Tokens in a unit, counted or not."""
        return self.sequences * self.length

    def tokens(self, unit: int) -> int:
        """Tokens that count in the loss of `unit`: all, or 1 up to the size less 4 where ragged, most of them few."""
        if not self.ragged:
            return self.size
        place = int(shuffled(self.seed, "tokens", self.units)[unit])
        return 1 + (self.size - 5) * place**2 // (self.units - 1) ** 2

    def unit(self, unit: int) -> UnitData:
        """The data of `unit`."""
        shape = (self.sequences, self.length)
        inputs = self._tokens(unit) if self.routes is None else self._pairs(unit, self.routes)
        palette = below(self.seed, f"palette.{unit}", self.vocabulary, _PALETTE)
        targets = palette[below(self.seed, f"target.{unit}", _PALETTE, self.size)]
        counted = shuffled(self.seed, f"counted.{unit}", self.size) < self.tokens(unit)
        targets = np.where(counted, targets, IGNORED)
        return UnitData(inputs=inputs.reshape(shape), targets=targets.reshape(shape))

    def _tokens(self, unit: int) -> NDArray[np.int64]:
        """[size]: tokens of the unit's own part of the vocabulary."""
        own = shuffled(self.seed, f"own.{unit}", self.vocabulary)[: 2 * _PALETTE]
        return own[below(self.seed, f"input.{unit}", len(own), self.size)]

    def _pairs(self, unit: int, routes: Routes) -> NDArray[np.int64]:
        """[size]: both tokens of every pair equally often. Unit 0 reaches every expert; the others lack some."""
        pairs = shuffled(self.seed, f"own.{unit}", self.vocabulary // 2)
        if unit == 0:
            own = pairs
        else:
            experts = int(routes.first.max()) + 1
            absent = shuffled(self.seed, f"absent.{unit}", experts)[: experts // 6]
            served = ~np.isin(routes.first[2 * pairs], absent) & ~np.isin(routes.second[2 * pairs], absent)
            own = pairs[served][:_PALETTE]
        drawn = own[np.arange(self.size // 2) % len(own)]
        both = np.concatenate((2 * drawn, 2 * drawn + 1))
        return both[shuffled(self.seed, f"order.{unit}", self.size)]
