"""Micro steps weighed differently."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from gradassay.goldens.assay.result import Pattern
from gradassay.goldens.assay.shapes.protocol import times
from gradassay.harness.faults.fault import InjectableFault
from gradassay.harness.faults.setting import Readers, below, formula, listed, numbers, one_of, spellings, value
from gradassay.harness.faults.site import Site
from gradassay.harness.faults.weighted import WeightedFault

_ACCUMULATION = "accum > 1"


def _by_micro_step(site: Site, weights: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.tile(weights, (site.layout.dp, 1))


@dataclass(frozen=True, slots=True, kw_only=True)
class Geometric(WeightedFault):
    """scale * base**(m-M+1): the accumulated gradient is scaled again in every micro step."""

    base: str = "dp"
    scale: str = "dp"

    name = "geometric"
    pattern = Pattern.GEOMETRIC
    description = (
        "what was accumulated is divided by `base` in every micro step, and the sum is `scale` times too large"
    )
    needs = "accum > 1 and a layout in which base is not 1"
    settings: ClassVar[Readers] = {"base": formula, "scale": formula}

    def check(self, site: Site) -> None:
        """Also refuses one micro step, and a base of 1."""
        InjectableFault.check(self, site)
        if site.layout.accum == 1 or value(self.base, site.layout) == 1:
            raise self.useless(site)

    def weights(self, site: Site) -> NDArray[np.float64]:
        """Powers of the base, the last micro step's being 1, times the scale."""
        steps = np.arange(site.layout.accum) - site.layout.accum + 1
        base, scale = value(self.base, site.layout), value(self.scale, site.layout)
        return _by_micro_step(site, scale * base ** steps.astype(np.float64))

    def formulas(self, site: Site) -> tuple[str, ...]:
        """The power, with a scale that is a power of the base taken into the exponent."""
        pairs = product(spellings(self.base, site.layout), spellings(self.scale, site.layout))
        return tuple(text for base, scale in pairs for text in _powers(base, scale))


def _powers(base: str, scale: str) -> Iterator[str]:
    falling = base.startswith("1/")
    base = base.removeprefix("1/").strip("()")
    powers = {"1": 0, base: 1, f"1/{base}": -1, f"{base}**2": 2, f"{base}**-2": -2}
    inside = base if base.isalnum() else f"({base})"
    shift = powers.get(scale, 0) + (-1 if falling else 1)
    if falling:
        exponent = f"M{shift:+d}-m" if shift < 0 else f"M-m{shift:+d}" if shift else "M-m"
    else:
        exponent = f"m-M{shift:+d}" if shift else "m-M"
    power = f"{inside}**({exponent})"
    yield power if scale in powers else times(scale, power)


@dataclass(frozen=True, slots=True, kw_only=True)
class Linear(WeightedFault):
    """An accumulated buffer that is reduced again and again. rising: the last micro step counts most, not the first."""

    rising: str = "false"

    name = "linear"
    pattern = Pattern.LINEAR
    description = "micro step m is added M-m times (m+1 times where rising=true)"
    needs = _ACCUMULATION
    settings: ClassVar[Readers] = {"rising": one_of("false", "true")}

    def weights(self, site: Site) -> NDArray[np.float64]:
        """M-m or m+1."""
        steps = np.arange(1.0, site.layout.accum + 1)
        return _by_micro_step(site, steps if self.rising == "true" else steps[::-1])

    def formulas(self, site: Site) -> tuple[str, ...]:
        """M-m or m+1."""
        return ("(m+1)" if self.rising == "true" else "(M-m)",)


@dataclass(frozen=True, slots=True, kw_only=True)
class _OneStep(WeightedFault):
    """scale: what the one micro step weighs."""

    scale: str = "1"

    needs = _ACCUMULATION
    settings: ClassVar[Readers] = {"scale": formula}
    place: ClassVar[int]
    inside: ClassVar[str]

    def check(self, site: Site) -> None:
        """Also refuses one micro step."""
        InjectableFault.check(self, site)
        if site.layout.accum == 1:
            raise self.useless(site)

    def weights(self, site: Site) -> NDArray[np.float64]:
        """0, and the scale in the micro step that counts."""
        weights = np.zeros(site.layout.accum)
        weights[self.place] = value(self.scale, site.layout)
        return _by_micro_step(site, weights)

    def formulas(self, site: Site) -> tuple[str, ...]:
        """The micro step that counts."""
        return tuple(times(scale, self.inside) for scale in spellings(self.scale, site.layout))


@dataclass(frozen=True, slots=True, kw_only=True)
class LastOnly(_OneStep):
    """What came before the last micro step is lost."""

    name = "last-only"
    pattern = Pattern.LAST_ONLY
    description = "only the last micro-batch counts, as where gradients are zeroed inside the loop"
    place = -1
    inside = "[m = M-1]"


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstOnly(_OneStep):
    """What comes after the first micro step is lost."""

    name = "first-only"
    pattern = Pattern.FIRST_ONLY
    description = "only the first micro-batch counts"
    place = 0
    inside = "[m = 0]"


@dataclass(frozen=True, slots=True, kw_only=True)
class MicroSubset(WeightedFault):
    """micros: the micro steps that count; first and last where none are named. scale: what they weigh."""

    micros: tuple[int, ...] = ()
    scale: str = "1"

    name = "micro-subset"
    pattern = Pattern.MICRO_SUBSET
    description = "only some micro-batches count: `micros`, by default the first and the last"
    needs = "accum > 2, or micros that are neither the first nor the last alone"
    settings: ClassVar[Readers] = {"micros": numbers, "scale": formula}

    def check(self, site: Site) -> None:
        """Also refuses sets that another fault is named for."""
        InjectableFault.check(self, site)
        micros, accum = self._chosen(site), site.layout.accum
        if accum < 2 or micros in ((0,), (accum - 1,)) or len(micros) == accum:
            raise self.useless(site)
        below(micros, accum, "accum")

    def weights(self, site: Site) -> NDArray[np.float64]:
        """0, and the scale in the micro steps that count."""
        weights = np.zeros(site.layout.accum)
        weights[list(self._chosen(site))] = value(self.scale, site.layout)
        return _by_micro_step(site, weights)

    def formulas(self, site: Site) -> tuple[str, ...]:
        """The set of micro steps."""
        inside = f"[m in {{{listed(self._chosen(site)).replace('+', ',')}}}]"
        return tuple(times(scale, inside) for scale in spellings(self.scale, site.layout))

    def _chosen(self, site: Site) -> tuple[int, ...]:
        return self.micros or tuple(sorted({0, site.layout.accum - 1}))
