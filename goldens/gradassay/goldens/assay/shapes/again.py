"""Owners that count what they computed themselves once more than the others."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gradassay.goldens.assay.result import Pattern
from gradassay.goldens.assay.shapes.protocol import Place, Setting, times


@dataclass(frozen=True, slots=True)
class OwnAgain:
    """The reduced gradient, to which every owner adds its own units again: as a mean has them, or (whole) undivided."""

    whole: bool

    pattern = Pattern.OWN_AGAIN

    @property
    def bits(self) -> float:
        return 4.0 + 0.5 * self.whole

    def weights(self, setting: Setting, place: Place) -> NDArray[np.float64] | None:
        layout = setting.layout
        if place.owner is None or layout.dp == 1:
            return None
        weights = np.ones((layout.dp, layout.accum))
        weights[place.owner] += setting.values["dp"] if self.whole else 1.0
        return weights

    def text(self, scale: str) -> str:
        return times(scale, f"(1 + {'dp*' if self.whole else ''}[r = owner])")
