"""Every unit alike."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gradassay.goldens.assay.result import Pattern
from gradassay.goldens.assay.shapes.protocol import Place, Setting


@dataclass(frozen=True, slots=True)
class Uniform:
    """Every unit alike."""

    pattern = Pattern.UNIFORM
    bits = 0.0

    def weights(self, setting: Setting, place: Place) -> NDArray[np.float64] | None:
        return np.ones((setting.layout.dp, setting.layout.accum))

    def text(self, scale: str) -> str:
        return scale
