"""Shapes that weights take over ranks and micro steps, before a scale: w[r,m] = s * shape(r,m)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from gradassay.goldens.assay.result import Pattern
from gradassay.goldens.assay.scale import Scale, sizes
from gradassay.goldens.layout import Layout


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """Where weights are read: the layout and the tokens [dp, accum] of its units.

    resolved: whether units can be told apart; without their gradients only one factor over all of them can be seen.
    """

    layout: Layout
    tokens: NDArray[np.float64]
    resolved: bool = True

    @property
    def values(self) -> dict[str, float]:
        """The numbers behind the symbols of a scale."""
        return sizes(self.layout, int(self.tokens.sum()))


@dataclass(frozen=True, slots=True)
class Place:
    """Which gradient: of a parameter in this pipeline stage, as this data-parallel rank owns it (None: all together)."""

    owner: int | None = None
    stage: int = 0


class Shape(Protocol):
    """One pattern without its scale."""

    @property
    def pattern(self) -> Pattern: ...

    @property
    def bits(self) -> float:
        """Length of the description."""
        ...

    def weights(self, setting: Setting, place: Place) -> NDArray[np.float64] | None:
        """[dp, accum] at this place, None where the shape means nothing there."""
        ...

    def text(self, scale: str) -> str:
        """The right-hand side of the law with this scale ("1" for none)."""
        ...


def times(scale: str, factor: str) -> str:
    """The product of a scale's text and a factor's."""
    if scale in ("1", "-1"):
        return factor if scale == "1" else f"-{factor}"
    if scale.startswith("1/"):
        return f"{factor}/{scale[2:]}"
    return f"{scale}*{factor}"


@dataclass(frozen=True, slots=True)
class Uniform:
    """Every unit alike."""

    pattern = Pattern.UNIFORM
    bits = 0.0

    def weights(self, setting: Setting, place: Place) -> NDArray[np.float64] | None:
        return np.ones((setting.layout.dp, setting.layout.accum))

    def text(self, scale: str) -> str:
        return scale


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

    def text(self, scale: str) -> str:
        base = str(self.base)
        folded = {"1": 0, base: 1, f"1/{base}": -1, f"{base}**2": 2, f"{base}**-2": -2}.get(scale)
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
    """base**(-stage): the scale changes from pipeline stage to pipeline stage."""

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
        power = place.stage if self.rising else -place.stage
        return np.full((setting.layout.dp, setting.layout.accum), base ** float(power))

    def text(self, scale: str) -> str:
        return times(scale, f"{self.base}**{'stage' if self.rising else '(-stage)'}")


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


@dataclass(frozen=True, slots=True)
class TokenWeighting:
    """A mean of means where a token mean is due, over units, ranks' totals or micro steps' totals; or the reverse."""

    over: str
    inverse: bool

    pattern = Pattern.TOKEN_WEIGHTING

    @property
    def bits(self) -> float:
        return 3.0 + 0.5 * self.inverse + {"unit": 0.0, "rank": 1.0, "micro": 1.0}[self.over]

    def weights(self, setting: Setting, place: Place) -> NDArray[np.float64] | None:
        axis = {"unit": None, "rank": 1, "micro": 0}[self.over]
        counts = setting.tokens if axis is None else setting.tokens.sum(axis=axis, keepdims=True)
        if (counts == 0).any() or np.ptp(counts) == 0:
            return None
        ratio = counts.mean() / counts
        return np.broadcast_to(1 / ratio if self.inverse else ratio, setting.tokens.shape)

    def text(self, scale: str) -> str:
        count = {"unit": "n[r,m]", "rank": "n[r]", "micro": "n[m]"}[self.over]
        return times(scale, f"{count}/mean(n)" if self.inverse else f"mean(n)/{count}")


@dataclass(frozen=True, slots=True)
class Unreduced:
    """Every owner keeps what its own group ("rank", "ep" or "replica") computed; the first `reduced` micro steps, or those
    listed, are reduced as they should be, where there are any."""

    group: str
    reduced: tuple[int, ...] = ()
    own: float = 1.0

    @property
    def pattern(self) -> Pattern:
        return Pattern.PARTLY_UNREDUCED if self.reduced else Pattern.UNREDUCED

    @property
    def bits(self) -> float:
        return 3.0 + {"rank": 0.0, "ep": 0.8, "replica": 1.2}[self.group] + 0.7 * len(self.reduced)

    @property
    def groups(self) -> str:
        """How many groups there are, as a symbol: the factor where a mean over them was left out."""
        return {"rank": "dp", "ep": "edp", "replica": "replicate"}[self.group]

    def members(self, layout: Layout, owner: int) -> list[int]:
        """The data-parallel ranks whose units the owner keeps."""
        if self.group == "rank":
            return [owner]
        if self.group == "ep":
            return list(layout.ep_group(owner))
        shard = layout.dp // layout.replicate
        return list(range(owner // shard * shard, owner // shard * shard + shard))

    def weights(self, setting: Setting, place: Place) -> NDArray[np.float64] | None:
        layout = setting.layout
        if place.owner is None:
            return None
        members = self.members(layout, place.owner)
        if len(members) == layout.dp or (self.group != "rank" and len(members) == 1):
            return None
        weights = np.zeros((layout.dp, layout.accum))
        weights[members] = self.own * layout.dp / len(members) if self.reduced else 1.0
        if self.reduced:
            if max(self.reduced) >= layout.accum:
                return None
            weights[:, list(self.reduced)] = 1.0
        return weights

    def text(self, scale: str) -> str:
        own = {"rank": "[r = owner]", "ep": "[r in owner's ep group]", "replica": "[r in owner's replica]"}[self.group]
        if not self.reduced:
            return times(scale, own)
        inside = f"m in {{{','.join(map(str, self.reduced))}}}" if len(self.reduced) > 1 else f"m = {self.reduced[0]}"
        rest = times(self.groups, own) if self.own == 1.0 else own
        return times(scale, f"(1 if {inside} else {rest})")


def known_shapes(setting: Setting, *, stages: int, owners: bool) -> Iterator[Shape]:
    """Every shape that needs no look at the weights, simplest first within its kind."""
    layout = setting.layout
    yield Uniform()
    if not setting.resolved:
        return
    bases = [Scale(powers=((name, 1),)) for name in ("dp", "ep", "edp", "accum", "pp", "tp", "cp", "replicate")]
    bases.append(Scale(constant=2.0))
    bases = [base for base in bases if base.value(setting.values) != 1.0]
    if layout.accum > 1:
        yield from (Geometric(base, rising) for base in bases for rising in (True, False))
        yield from (Linear(rising=False), Linear(rising=True), MicroStep(last=True), MicroStep(last=False))
    if stages > 1:
        yield from (StageGeometric(base, rising) for base in bases for rising in (True, False))
    yield from (TokenWeighting(over, inverse) for over in ("unit", "rank", "micro") for inverse in (False, True))
    if owners:
        for group in ("rank", "ep", "replica"):
            yield Unreduced(group)
            for count in range(1, layout.accum):
                for reduced in {tuple(range(count)), tuple(range(layout.accum - count, layout.accum))}:
                    yield Unreduced(group, reduced)
                    yield Unreduced(group, reduced, own=len(Unreduced(group).members(layout, 0)) / layout.dp)


def read_shapes(weights: NDArray[np.float64], layout: Layout, *, tolerance: float) -> Iterator[Shape]:
    """Shapes read off solved weights [dp, accum] (NaN where unobserved): two levels by micro step or by rank, any ratio."""
    for of_ranks, size in ((False, layout.accum), (True, layout.dp)):
        lines = weights if of_ranks else weights.T
        if size < 2 or np.isnan(lines).all(axis=1).any():
            continue
        spread = np.nanmax(lines, axis=1) - np.nanmin(lines, axis=1)
        levels = np.nanmean(lines, axis=1)
        largest = np.abs(levels).max()
        if largest == 0 or (spread > tolerance * largest).any():
            continue
        yield from _two_levels(levels, layout, of_ranks=of_ranks, tolerance=tolerance * largest)
        if not of_ranks and (np.abs(levels) > tolerance * largest).all() and size > 2:
            yield from _geometric(levels, tolerance)


def _two_levels(levels: NDArray[np.float64], layout: Layout, *, of_ranks: bool, tolerance: float) -> Iterator[Shape]:
    order = np.argsort(levels)
    gaps = np.diff(levels[order])
    cut = int(np.argmax(gaps)) + 1
    low, high = levels[order[:cut]], levels[order[cut:]]
    if np.ptp(low) > tolerance or np.ptp(high) > tolerance or gaps.max() <= tolerance:
        return
    for inside, rest in ((order[cut:], low.mean()), (order[:cut], high.mean())):
        members = tuple(sorted(int(member) for member in inside))
        level = levels[list(members)].mean()
        if abs(level) <= tolerance:
            continue
        name = _group_name(members, layout) if of_ranks else ""
        if abs(rest) <= tolerance:
            yield Subset(members, of_ranks, name=name)
        elif len(members) * 2 <= len(levels):
            yield Subset(members, of_ranks, inside=_plain(level / rest), elsewhere=1.0, name=name)


def _plain(ratio: float) -> float:
    """A ratio as the whole number, or its inverse, that it is within a thousandth."""
    for candidate in (round(ratio), 1 / round(1 / ratio) if round(1 / ratio) else 0.0):
        if candidate and abs(ratio / candidate - 1) < 1e-3:
            return float(candidate)
    return float(ratio)


def _group_name(members: tuple[int, ...], layout: Layout) -> str:
    if members == tuple(layout.ep_group(members[0])) and 1 < layout.ep < layout.dp:
        return "one expert-parallel group"
    if members == tuple(layout.edp_group(members[0])) and 1 < layout.edp < layout.dp:
        return "one expert-data-parallel group"
    shard = layout.dp // layout.replicate
    if layout.replicate > 1 and members == tuple(range(members[0], members[0] + shard)) and members[0] % shard == 0:
        return "one replica"
    return ""


def _geometric(levels: NDArray[np.float64], tolerance: float) -> Iterator[Shape]:
    ratios = [after / before for before, after in pairwise(levels.tolist())]
    ratio = float(np.mean(ratios))
    if ratio <= 0 or abs(ratio - 1) < 10 * tolerance or max(abs(r / ratio - 1) for r in ratios) > 10 * tolerance:
        return
    base = max(ratio, 1 / ratio)
    if abs(base - round(base)) <= 10 * tolerance * base:
        base = float(round(base))
    yield Geometric(Scale(constant=base), rising=ratio > 1)
