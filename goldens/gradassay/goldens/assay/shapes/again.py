"""Owners that count what they computed themselves once more than the others."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gradassay.goldens.assay.result import Pattern
from gradassay.goldens.assay.shapes.protocol import Place, Setting, times
from gradassay.goldens.assay.shapes.unreduced import GROUP_BITS, OWN, group_count, own_mask


@dataclass(frozen=True, slots=True)
class OwnAgain:
    """The reduced gradient, to which every owner adds its own group's units again: as a mean has them, or (whole) undivided."""

    group: str
    whole: bool

    pattern = Pattern.OWN_AGAIN

    @property
    def bits(self) -> float:
        return 4.0 + GROUP_BITS[self.group] + 0.5 * self.whole

    def weights(self, setting: Setting, place: Place) -> NDArray[np.float64] | None:
        mask = own_mask(self.group, setting.layout, place)
        if mask is None:
            return None
        return 1.0 + mask * (setting.values[group_count(self.group)] if self.whole else 1.0)

    def text(self, scale: str) -> str:
        return times(scale, f"(1 + {f'{group_count(self.group)}*' if self.whole else ''}{OWN[self.group]})")
