"""Units weighted by the wrong token counts."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gradassay.goldens.assay.result import Pattern
from gradassay.goldens.assay.shapes.protocol import Place, Setting, times


@dataclass(frozen=True, slots=True)
class TokenWeighting:
    """A mean of means where a token mean is due, over units, ranks' totals or micro steps' totals; or the reverse."""

    over: str
    inverse: bool

    pattern = Pattern.TOKEN_WEIGHTING

    @property
    def bits(self) -> float:
        return 3.0 + 0.5 * self.inverse + {"unit": 0.0, "rank": 1.0, "micro": 1.0}[self.over]

    def weights(self, setting: Setting, place: Place) -> NDArray[np.float64] | None:
        axis = {"unit": None, "rank": 1, "micro": 0}[self.over]
        counts = setting.tokens if axis is None else setting.tokens.sum(axis=axis, keepdims=True)
        if (counts == 0).any() or np.ptp(counts) == 0:
            return None
        ratio = counts.mean() / counts
        return np.broadcast_to(1 / ratio if self.inverse else ratio, setting.tokens.shape)

    def text(self, scale: str) -> str:
        count = {"unit": "n[r,m]", "rank": "n[r]", "micro": "n[m]"}[self.over]
        return times(scale, f"{count}/mean(n)" if self.inverse else f"mean(n)/{count}")
