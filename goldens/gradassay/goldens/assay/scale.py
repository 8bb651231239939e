"""Scales: products of small integer powers of a layout's sizes, or a number where no size explains it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations, product
from math import log2

import numpy as np
from numpy.typing import NDArray

from gradassay.goldens.layout import Layout

# How far a symbol is from being the first guess, in bits; experts are reduced over other groups than the rest.
_PRIOR_BITS = {"dp": 1.0, "accum": 1.2, "ep": 1.6, "cp": 1.8, "tp": 2.0, "pp": 2.2, "edp": 2.4, "replicate": 2.6}
_EXPERT_PRIOR_BITS = _PRIOR_BITS | {"ep": 0.8, "edp": 1.4, "dp": 1.8, "accum": 2.2}
_LATE_PRIOR_BITS = {"world": 3.2, "tokens": 5.0, "units": 4.0}
_POWER_OF_TWO_BITS = 2.8
_NUMBER_BITS = 12.0


def sizes(layout: Layout, tokens: int = 0) -> dict[str, float]:
    """The value of every symbol that a scale may use; tokens is the number that count in the loss, 0 if unknown."""
    values: dict[str, float] = {**layout.to_json(), "edp": layout.edp, "world": layout.world, "units": layout.units}
    if tokens:
        values["tokens"] = tokens
    return {name: float(value) for name, value in values.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """A factor above zero: `constant` times the product of symbols to integer powers.

    The text of a scale names its powers in the order of the field ("ep", "1/dp", "dp/2", "2**16", "1.01").
    """

    powers: tuple[tuple[str, int], ...] = ()
    constant: float = 1.0

    def value(self, values: Mapping[str, float]) -> float:
        """The factor as a number where the symbols have these values."""
        number = self.constant
        for name, power in self.powers:
            number *= values[name] ** power
        return number

    @property
    def definition(self) -> tuple[tuple[tuple[str, int], ...], float]:
        """Equal for scales that are the same by definition: edp = dp/ep, world = dp*tp*pp*cp, units = dp*accum."""
        spelled: dict[str, int] = {}
        expand = {
            "edp": {"dp": 1, "ep": -1},
            "world": {"dp": 1, "tp": 1, "pp": 1, "cp": 1},
            "units": {"dp": 1, "accum": 1},
        }
        for name, power in self.powers:
            for base, exponent in expand.get(name, {name: 1}).items():
                spelled[base] = spelled.get(base, 0) + power * exponent
        return tuple(sorted((name, power) for name, power in spelled.items() if power)), self.constant

    @property
    def named(self) -> bool:
        """Whether sizes and powers of two explain the factor; otherwise it is just a number."""
        return bool(self.powers) or log2(self.constant).is_integer()

    def bits(self, *, expert: bool = False) -> float:
        """Length of the description; experts think of ep first, the rest of dp."""
        prior = (_EXPERT_PRIOR_BITS if expert else _PRIOR_BITS) | _LATE_PRIOR_BITS
        length = sum(prior[name] + 0.6 * (power < 0) + 1.5 * (abs(power) - 1) for name, power in self.powers)
        length += 1.0 * max(0, len(self.powers) - 1)
        if self.constant != 1.0:
            exponent = log2(self.constant)
            length += _POWER_OF_TWO_BITS + 0.1 * abs(exponent) if exponent.is_integer() else _NUMBER_BITS
        return length

    def __str__(self) -> str:
        above = [_power(name, power) for name, power in self.powers if power > 0]
        below = [_power(name, -power) for name, power in self.powers if power < 0]
        exponent = log2(self.constant)
        if not exponent.is_integer():
            inverse = 1 / self.constant
            if self.powers and round(inverse) == inverse:
                below.append(f"{inverse:.0f}")
            else:
                above.insert(0, f"{self.constant:.9g}")
        elif exponent > 0:
            above.insert(0, _power("2", int(exponent)) if exponent > 3 else str(2 ** int(exponent)))
        elif exponent < 0:
            below.append(_power("2", int(-exponent)) if exponent < -3 else str(2 ** int(-exponent)))
        if not below:
            return "*".join(above) or "1"
        if len(below) == 1 and "**" in below[0] and not above:
            name, _, power = below[0].partition("**")
            return f"{name}**-{power}"
        return f"{'*'.join(above) or '1'}/{below[0] if len(below) == 1 else '(' + '*'.join(below) + ')'}"


def _power(name: str, power: int) -> str:
    return name if power == 1 else f"{name}**{power}"


def number(value: float) -> Scale:
    """A scale that no size explains."""
    return Scale(constant=value)


@lru_cache(maxsize=4096)
def _all(symbols: tuple[str, ...]) -> tuple[Scale, ...]:
    found = [Scale()]
    found += [Scale(powers=((name, power),)) for name in symbols for power in (1, -1, 2, -2)]
    found += [
        Scale(powers=((one, first), (two, second)))
        for one, two in combinations(symbols, 2)
        for first, second in product((1, -1), repeat=2)
    ]
    if "tokens" in symbols:
        found += [Scale(powers=(("tokens", sign), ("units", -sign))) for sign in (1, -1)]
    found += [Scale(constant=2.0**power) for power in range(-30, 31) if power]
    found += [
        Scale(powers=((name, sign),), constant=2.0**power)
        for name in symbols
        if name != "tokens"
        for sign in (1, -1)
        for power in (1, -1)
    ]
    unique: dict[object, Scale] = {}
    for scale in sorted(found, key=Scale.bits):
        unique.setdefault(scale.definition, scale)
    return tuple(unique.values())


def scales(values: Mapping[str, float]) -> tuple[Scale, ...]:
    """Every scale of short description in these sizes; sizes of 1 explain nothing and are left out."""
    order = ("dp", "ep", "edp", "tp", "pp", "cp", "replicate", "accum", "world", "tokens")
    present = [name for name in order if values.get(name, 1.0) != 1.0]
    if values.get("world") == values.get("dp"):
        present = [name for name in present if name != "world"]
    if values.get("edp") == values.get("dp"):
        present = [name for name in present if name != "edp"]
    return _all(tuple(present))


def matching(target: float, values: Mapping[str, float], *, relative_tolerance: float) -> list[Scale]:
    """The scales within `relative_tolerance` of the positive number `target`, shortest first; of those that are 1, only 1."""
    known, numbers = _valued(tuple(values.items()))
    found = [known[place] for place in np.flatnonzero(np.abs(numbers / target - 1) <= relative_tolerance)]
    return found[:1] if found and found[0] == Scale() else found


@lru_cache(maxsize=256)
def _valued(values: tuple[tuple[str, float], ...]) -> tuple[tuple[Scale, ...], NDArray[np.float64]]:
    known = scales(dict(values))
    return known, np.array([scale.value(dict(values)) for scale in known])
