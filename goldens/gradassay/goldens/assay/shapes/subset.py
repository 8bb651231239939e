"""Some micro steps or ranks unlike the others."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gradassay.goldens.assay.result import Pattern
from gradassay.goldens.assay.scale import Scale
from gradassay.goldens.assay.shapes.protocol import Place, Setting, times


@dataclass(frozen=True, slots=True)
class Subset:
    """Some micro steps, or some ranks, weigh `ratio` times what the others do; without a ratio the others weigh nothing.

    negative: the two have opposite signs. name: what the ranks are, where they are a group of the layout.
    """

    members: tuple[int, ...]
    of_ranks: bool
    ratio: Scale | None = None
    negative: bool = False
    name: str = ""

    @property
    def pattern(self) -> Pattern:
        return Pattern.RANK_SUBSET if self.of_ranks else Pattern.MICRO_SUBSET

    @property
    def bits(self) -> float:
        where = 5.0 + (0.0 if self.name else 0.5 * len(self.members))
        return where + (1.0 + self.ratio.bits() + self.negative if self.ratio else 0.0)

    @property
    def natural(self) -> Scale:
        """The scale of a mean over the members only, where nothing else counts."""
        return Scale(powers=(("dp" if self.of_ranks else "accum", 1),), constant=1 / len(self.members))

    def weights(self, setting: Setting, place: Place) -> NDArray[np.float64] | None:
        layout = setting.layout
        if max(self.members) >= (layout.dp if self.of_ranks else layout.accum):
            return None
        weights = np.full((layout.dp, layout.accum), 1.0 if self.ratio else 0.0)
        index = list(self.members)
        inside = self.ratio.value(setting.values) if self.ratio else 1.0
        weights[(index, slice(None)) if self.of_ranks else (slice(None), index)] = -inside if self.negative else inside
        return weights

    def text(self, scale: str) -> str:
        where = f"{'r' if self.of_ranks else 'm'} in {{{','.join(map(str, self.members))}}}"
        if self.ratio is None:
            return times(scale, f"[{where}]")
        inside = str(self.ratio) if self.ratio.named else f"{self.ratio.constant:.6g}"
        return times(scale, f"({'-' if self.negative else ''}{inside} if {where} else 1)")
