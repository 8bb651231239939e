"""Weights that depend on the micro step alone: linear, or the first or last one only."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gradassay.goldens.assay.result import Pattern
from gradassay.goldens.assay.shapes.protocol import Place, Setting, times


@dataclass(frozen=True, slots=True)
class Linear:
    """M-m or m+1: an accumulated buffer that is reduced again and again."""

    rising: bool

    pattern = Pattern.LINEAR

    @property
    def bits(self) -> float:
        return 3.5 + 0.4 * self.rising

    def weights(self, setting: Setting, place: Place) -> NDArray[np.float64] | None:
        layout = setting.layout
        if layout.accum == 1:
            return None
        steps = np.arange(1, layout.accum + 1, dtype=np.float64)
        return np.tile(steps if self.rising else steps[::-1], (layout.dp, 1))

    def text(self, scale: str) -> str:
        return times(scale, "(m+1)" if self.rising else "(M-m)")


@dataclass(frozen=True, slots=True)
class MicroStep:
    """Only the first or only the last micro-batch counts."""

    last: bool

    bits = 2.5

    @property
    def pattern(self) -> Pattern:
        return Pattern.LAST_ONLY if self.last else Pattern.FIRST_ONLY

    def weights(self, setting: Setting, place: Place) -> NDArray[np.float64] | None:
        layout = setting.layout
        if layout.accum == 1:
            return None
        weights = np.zeros((layout.dp, layout.accum))
        weights[:, -1 if self.last else 0] = 1.0
        return weights

    def text(self, scale: str) -> str:
        return times(scale, "[m = M-1]" if self.last else "[m = 0]")
