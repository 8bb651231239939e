"""Some micro steps or ranks unlike the others."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gradassay.goldens.assay.result import Pattern
from gradassay.goldens.assay.shapes.protocol import Place, Setting, times


@dataclass(frozen=True, slots=True)
class Subset:
    """Some micro steps, or some ranks, weigh `inside` and the others `elsewhere`."""

    members: tuple[int, ...]
    of_ranks: bool
    inside: float = 1.0
    elsewhere: float = 0.0
    name: str = ""

    @property
    def pattern(self) -> Pattern:
        return Pattern.RANK_SUBSET if self.of_ranks else Pattern.MICRO_SUBSET

    @property
    def bits(self) -> float:
        return 5.0 + (0.0 if self.name else 0.5 * len(self.members)) + 4.0 * (self.elsewhere != 0.0)

    def weights(self, setting: Setting, place: Place) -> NDArray[np.float64] | None:
        layout = setting.layout
        if max(self.members) >= (layout.dp if self.of_ranks else layout.accum):
            return None
        weights = np.full((layout.dp, layout.accum), self.elsewhere)
        index = list(self.members)
        weights[(index, slice(None)) if self.of_ranks else (slice(None), index)] = self.inside
        return weights

    def text(self, scale: str) -> str:
        where = f"{'r' if self.of_ranks else 'm'} in {{{','.join(map(str, self.members))}}}"
        if self.elsewhere:
            return times(scale, f"({self.inside:.6g} if {where} else {self.elsewhere:.6g})")
        return times(scale, f"[{where}]")
