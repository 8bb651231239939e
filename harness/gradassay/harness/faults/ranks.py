"""Ranks weighed differently, by number or by their tokens."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from gradassay.goldens.assay.result import Pattern
from gradassay.goldens.assay.shapes.protocol import times
from gradassay.harness.faults.fault import SEVERAL_RANKS, InjectableFault
from gradassay.harness.faults.setting import Readers, below, formula, listed, numbers, one_of, spellings, value
from gradassay.harness.faults.site import Site
from gradassay.harness.faults.weighted import WeightedFault


@dataclass(frozen=True, slots=True, kw_only=True)
class RankSubset(WeightedFault):
    """ranks: those that count; the first ep group, or the first half, where none are named. scale: what they weigh."""

    ranks: tuple[int, ...] = ()
    scale: str = "1"

    name = "rank-subset"
    pattern = Pattern.RANK_SUBSET
    description = "only some ranks count: `ranks`, by default those of one expert-parallel group, or the first half"
    needs = "dp > 1"
    strategies = SEVERAL_RANKS
    settings: ClassVar[Readers] = {"ranks": numbers, "scale": formula}

    def check(self, site: Site) -> None:
        """Also refuses one rank, and ranks that there are not."""
        InjectableFault.check(self, site)
        if site.layout.dp == 1:
            raise self.useless(site)
        below(self._chosen(site), site.layout.dp, "dp")

    def weights(self, site: Site) -> NDArray[np.float64]:
        """0, and the scale on the ranks that count."""
        weights = np.zeros((site.layout.dp, site.layout.accum))
        weights[list(self._chosen(site))] = value(self.scale, site.layout)
        return weights

    def formulas(self, site: Site) -> tuple[str, ...]:
        """The set of ranks."""
        inside = f"[r in {{{listed(self._chosen(site)).replace('+', ',')}}}]"
        return tuple(times(scale, inside) for scale in spellings(self.scale, site.layout))

    def _chosen(self, site: Site) -> tuple[int, ...]:
        layout = site.layout
        size = layout.ep if 1 < layout.ep < layout.dp else max(layout.dp // 2, 1)
        return self.ranks or tuple(range(size))


_AXES: Mapping[str, int | None] = {"unit": None, "rank": 1, "micro": 0}
_COUNTS: Mapping[str, str] = {"unit": "n[r,m]", "rank": "n[r]", "micro": "n[m]"}


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenWeighting(WeightedFault):
    """A mean of means where a token mean is due. over: whose means; of units, of ranks or of micro steps."""

    over: str = "unit"

    name = "token-weighting"
    pattern = Pattern.TOKEN_WEIGHTING
    description = (
        "the mean of unit means (over=rank, over=micro: of ranks' or micro steps' means) where a token mean is due"
    )
    needs = "a problem whose objective is a token mean, such as ragged-tiny, and more than one of what `over` names"
    settings: ClassVar[Readers] = {"over": one_of(*_AXES)}

    def check(self, site: Site) -> None:
        """Also refuses problems in which all units count alike anyway."""
        if site.problem.objective != "token-mean":
            raise self.useless(site)
        WeightedFault.check(self, site)

    def weights(self, site: Site) -> NDArray[np.float64]:
        """mean(n)/n."""
        axis = _AXES[self.over]
        counts = site.tokens if axis is None else site.tokens.sum(axis=axis, keepdims=True)
        return np.broadcast_to(counts.mean() / counts, site.tokens.shape).copy()

    def formulas(self, site: Site) -> tuple[str, ...]:
        """mean(n)/n."""
        return (f"mean(n)/{_COUNTS[self.over]}",)
