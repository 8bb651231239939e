"""Every unit weighed alike: a factor, a flipped sign, nothing at all."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from gradassay.goldens.assay.result import Pattern
from gradassay.harness.faults.fault import Expected, InjectableFault
from gradassay.harness.faults.setting import Readers, formula, spellings, value
from gradassay.harness.faults.site import Site
from gradassay.harness.faults.weighted import WeightedFault


@dataclass(frozen=True, slots=True, kw_only=True)
class Uniform(WeightedFault):
    """scale: the factor, a formula of the layout's sizes."""

    scale: str = "dp"

    name = "uniform"
    pattern = Pattern.UNIFORM
    description = "every gradient is `scale` times too large"
    needs = "a layout in which scale is not 1"
    settings: ClassVar[Readers] = {"scale": formula}

    def weights(self, site: Site) -> NDArray[np.float64]:
        """The factor."""
        return np.full((site.layout.dp, site.layout.accum), value(self.scale, site.layout))

    def formulas(self, site: Site) -> tuple[str, ...]:
        """The factor's formula."""
        return spellings(self.scale, site.layout)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sign(WeightedFault):
    """A sum that is subtracted."""

    name = "sign"
    pattern = Pattern.SIGN
    description = "every gradient has the wrong sign"

    def weights(self, site: Site) -> NDArray[np.float64]:
        """-1."""
        return np.full((site.layout.dp, site.layout.accum), -1.0)

    def formulas(self, site: Site) -> tuple[str, ...]:
        """-1."""
        return ("-1",)


@dataclass(frozen=True, slots=True, kw_only=True)
class Zero(WeightedFault):
    """A gradient that is there, but empty."""

    name = "zero"
    pattern = Pattern.ZERO
    description = "every gradient is zero"

    def weights(self, site: Site) -> NDArray[np.float64]:
        """0."""
        return np.zeros((site.layout.dp, site.layout.accum))

    def formulas(self, site: Site) -> tuple[str, ...]:
        """0."""
        return ("0",)

    def expected(self, site: Site) -> tuple[Expected, ...]:
        """Seen without solving for weights, so that none are shown."""
        return (Expected(pattern=self.pattern, formulas=("0",), parameters=InjectableFault.names(self, site)),)
