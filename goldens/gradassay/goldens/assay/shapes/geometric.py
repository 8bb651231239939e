"""Weights that change by one factor from micro step to micro step, or from pipeline stage to pipeline stage."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gradassay.goldens.assay.result import Pattern
from gradassay.goldens.assay.scale import Scale
from gradassay.goldens.assay.shapes.protocol import Place, Setting, times


@dataclass(frozen=True, slots=True)
class Geometric:
    """q**(m-M+1): every micro step weighs q times the one before. `base` is q, or 1/q where it falls."""

    base: Scale
    rising: bool

    pattern = Pattern.GEOMETRIC

    @property
    def bits(self) -> float:
        return 3.0 + self.base.bits() + 0.4 * (not self.rising)

    def weights(self, setting: Setting, place: Place) -> NDArray[np.float64] | None:
        layout = setting.layout
        base = self.base.value(setting.values)
        steps = np.arange(layout.accum) - layout.accum + 1
        if base == 1.0:
            return None
        return np.tile(base ** (steps if self.rising else -steps).astype(np.float64), (layout.dp, 1))

    @property
    def _shifts(self) -> dict[Scale, int]:
        """Scales that only shift the exponent, with the power of the base that they are."""
        return {
            Scale(
                powers=tuple((name, exponent * power) for name, exponent in self.base.powers if power),
                constant=self.base.constant**power,
            ): power
            for power in (-2, -1, 0, 1, 2)
        }

    def shift(self, scale: Scale) -> int | None:
        """The power of its own base that a scale is, where it is one of at most 2."""
        return self._shifts.get(scale)

    def text(self, scale: str) -> str:
        base = str(self.base)
        folded = {str(shifted): power for shifted, power in self._shifts.items()}.get(scale)
        shift = (1 if self.rising else -1) + (folded or 0)
        tail = "" if shift == 0 else f"{shift:+d}"
        if self.rising:
            exponent = f"m-M{tail}"
        else:
            exponent = {-1: "M-1-m", -2: "M-2-m", -3: "M-3-m"}.get(shift, f"M-m{tail}")
        wrapped = f"({base})" if not base.replace(".", "").isalnum() else base
        power = f"{wrapped}**({exponent})"
        return power if folded is not None else times(scale, power)


@dataclass(frozen=True, slots=True)
class StageGeometric:
    """base**(stage-pp+1), or base**(-stage): the scale changes from pipeline stage to pipeline stage."""

    base: Scale
    rising: bool

    pattern = Pattern.GEOMETRIC

    @property
    def bits(self) -> float:
        return 4.0 + self.base.bits() + 0.4 * (not self.rising)

    def weights(self, setting: Setting, place: Place) -> NDArray[np.float64] | None:
        base = self.base.value(setting.values)
        if base == 1.0:
            return None
        power = place.stage - setting.layout.pp + 1 if self.rising else -place.stage
        return np.full((setting.layout.dp, setting.layout.accum), base ** float(power))

    def text(self, scale: str) -> str:
        return times(scale, f"{self.base}**({'stage-pp+1' if self.rising else '-stage'})")
