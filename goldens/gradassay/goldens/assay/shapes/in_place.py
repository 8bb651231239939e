"""Shards that are reduced into the buffer which the next reduction starts from."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gradassay.goldens.assay.result import Pattern
from gradassay.goldens.assay.shapes.protocol import Place, Setting, times


@dataclass(frozen=True, slots=True)
class ReducedInPlace:
    """The owner's shard is overwritten by the mean, which the next reduction takes for the owner's own gradient, while the
    other ranks still hold what they had: at every micro step, or (twice) two times after the last one.

    With b the owner's buffer: b <- (b + g[owner,m] + sum over the other ranks of all that they accumulated) / dp.
    """

    twice: bool

    pattern = Pattern.REDUCED_AGAIN

    @property
    def bits(self) -> float:
        return 4.0 + 0.5 * self.twice

    def weights(self, setting: Setting, place: Place) -> NDArray[np.float64] | None:
        layout = setting.layout
        if place.owner is None or layout.dp == 1 or (layout.accum == 1 and not self.twice):
            return None
        later = np.ones(layout.accum) if self.twice else np.arange(layout.accum - 1, -1, -1.0)
        decay = setting.values["dp"] ** -later
        # A geometric sum: 1 + 1/dp + ... + dp**-later.
        others = (1 - decay / setting.values["dp"]) / (1 - 1 / setting.values["dp"])
        weights = np.tile(others, (layout.dp, 1))
        weights[place.owner] = decay
        return weights

    def text(self, scale: str) -> str:
        own, others = ("1/dp", "1 + 1/dp") if self.twice else ("dp**(m-M+1)", "1 + ... + dp**(m-M+1)")
        return times(scale, f"({own} if r = owner else {others})")
