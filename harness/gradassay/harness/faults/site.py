"""Where a fault is injected: the cell, seen from one of its ranks."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gradassay.goldens.layout import Layout
from gradassay.harness.problems.protocol import Problem

EXPERT = "expert"


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """A cell's problem, layout, strategy ("" where it does not matter) and dtype profile, and this data-parallel rank."""

    problem: Problem
    layout: Layout
    strategy: str = ""
    dtype: str = "float32"
    rank: int = 0

    @property
    def tokens(self) -> NDArray[np.float64]:
        """[dp, accum]: tokens of every unit that count in the loss."""
        layout = self.layout
        counts = [self.problem.tokens(unit) for unit in range(layout.units)]
        return np.array(counts, dtype=np.float64).reshape(layout.accum, layout.dp).T

    @property
    def coefficients(self) -> NDArray[np.float64]:
        """[dp, accum]: c_true of every unit, by how much its mean loss counts in the objective."""
        if self.problem.objective == "unit-mean":
            return np.full((self.layout.dp, self.layout.accum), 1 / self.layout.units)
        tokens = self.tokens
        shares: NDArray[np.float64] = tokens / tokens.sum()
        return shares

    def spread(self, family: str) -> bool:
        """Whether parameters of this family live on ep groups, so that a local gradient holds the whole group's units."""
        return family == EXPERT and self.layout.ep > 1

    def sources(self, family: str) -> range:
        """Ranks whose units are in this rank's local gradient of a parameter of this family."""
        return self.layout.ep_group(self.rank) if self.spread(family) else range(self.rank, self.rank + 1)
