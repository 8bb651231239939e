"""From numbers to a law: the shortest formula, the formulas that cannot be told from it here, and where they differ."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product

import numpy as np

from gradassay.goldens.assay.cluster import Cluster, description_bits, named_scales, same_numbers
from gradassay.goldens.assay.result import Law, Pattern
from gradassay.goldens.assay.scale import Scale, matching, number
from gradassay.goldens.assay.shapes import (
    Geometric,
    Place,
    Setting,
    Shape,
    Uniform,
    Unreduced,
    group_count,
    known_shapes,
)
from gradassay.goldens.faults import load_catalogue, look_alikes
from gradassay.goldens.layout import Layout

_TIES = 12
_CLIP_BITS = 4.0
_TIE_BITS = 8.0
_NATURAL_BONUS = 2.0
_REPORT_BONUS, _FRAMEWORK_BONUS = 0.3, 1.5
_ROUND_NORMS = (0.1, 0.25, 0.5, 1.0, 2.0, 5.0, 10.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Formula:
    """A shape with a scale that has a name."""

    shape: Shape
    scale: Scale
    negative: bool = False
    bits: float = 0.0

    @property
    def text(self) -> str:
        """The right-hand side of w[r,m]."""
        scale = str(self.scale)
        return self.shape.text(f"-{scale}" if self.negative else scale)

    @property
    def pattern(self) -> Pattern:
        """The pattern; a uniform factor below zero is a flipped sign."""
        return Pattern.SIGN if self.negative and isinstance(self.shape, Uniform) else self.shape.pattern


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """Who is being explained: what the candidate calls itself, and whether the finding covers every parameter there is.

    total_norm: norm of the candidate's whole gradient, where every parameter was captured. clips: after clipping, the factors
    that a wrong clip leaves, by formula.
    """

    framework: str
    whole: bool
    total_norm: float | None
    clips: Mapping[str, float] = field(default_factory=dict)


def name_law(cluster: Cluster, setting: Setting, subject: Subject) -> tuple[Law, tuple[str, ...]]:
    """The law of a cluster and the ids of the public reports that it looks like."""
    formulas = sorted(_formulas(cluster, setting, subject), key=lambda formula: (formula.bits, formula.text))
    best = formulas[0]
    ties = [formula for formula in distinct(formulas)[1:] if formula.bits <= best.bits + _TIE_BITS][:_TIES]
    scale, text, value = str(best.scale), best.text, best.scale.value(setting.values) * (-1 if best.negative else 1)
    wrong_clip = _wrong_clip(cluster, subject)
    if wrong_clip is not None:
        ties = [best, *ties] if best.scale.named else ties
        scale = text = wrong_clip
    elif best.bits > _CLIP_BITS and _clipped(cluster, subject):
        ties = [best, *ties] if best.scale.named else ties
        scale = text = "max_norm/norm"
    law = Law(
        pattern=best.pattern,
        formula=f"w[r,m] = {text}",
        scale=f"-{scale}" if best.negative else scale,
        value=value,
        ties=tuple(formula.text for formula in ties),
        separated_by=separating(best, ties, setting) if ties else None,
        confidence=(1 - 2 ** -max(0.0, cluster.evidence)) / (1 + cluster.doubt),
    )
    texts = [text, *law.ties]
    reports = look_alikes(law.pattern, texts, cluster.families, whole=subject.whole, framework=subject.framework)
    return law, reports


def _formulas(cluster: Cluster, setting: Setting, subject: Subject) -> Iterator[Formula]:
    expert = set(cluster.families) == {"expert"}
    places = {block.place for system in cluster.systems for block in system.blocks}
    owners = any(place.owner is not None for place in places)
    shapes = list(known_shapes(setting, stages=len({place.stage for place in places}), owners=owners))
    if setting.layout.accum == 1:
        yield from _without_accumulation(cluster, setting, subject)
    for shape in [cluster.shape, *(shape for shape in shapes if shape != cluster.shape)]:
        scale = cluster.scale
        if shape != cluster.shape:
            found = _scale_of(shape, cluster, setting)
            if found is None:
                continue
            scale = found
        named = named_scales(shape, scale, setting, relative_tolerance=cluster.scale_tolerance)
        if shape == cluster.shape and not named:
            named = [number(_plain(abs(scale), cluster.scale_tolerance))]
        for match in named:
            formula = Formula(shape=shape, scale=match, negative=scale < 0)
            bits = description_bits(shape, match, expert=expert) - _bonus(formula, cluster, subject)
            yield replace(formula, bits=bits)


def _without_accumulation(cluster: Cluster, setting: Setting, subject: Subject) -> Iterator[Formula]:
    """Laws over micro steps that public reports know, where there is one micro step to see them in."""
    if not isinstance(cluster.shape, Uniform):
        return
    base = Scale(powers=(("dp", 1),))
    if base.value(setting.values) == 1.0:
        return
    for shape in (Geometric(base, rising=True), Geometric(base, rising=False)):
        for match in matching(abs(cluster.scale), setting.values, relative_tolerance=cluster.scale_tolerance):
            formula = Formula(shape=shape, scale=match, negative=cluster.scale < 0)
            if look_alikes(formula.pattern, [formula.text], cluster.families, whole=subject.whole):
                yield replace(formula, bits=description_bits(shape, match, expert=False))


def _scale_of(shape: Shape, cluster: Cluster, setting: Setting) -> float | None:
    """The scale with which another shape gives the very same weights, if one does."""
    places = {block.place for system in cluster.systems for block in system.blocks}
    pairs = [(cluster.shape.weights(setting, place), shape.weights(setting, place)) for place in places]
    along, norm2 = 0.0, 0.0
    for here, there in pairs:
        if here is None or there is None:
            return None
        along, norm2 = along + float(np.vdot(here, there)), norm2 + float(np.vdot(there, there))
    scale = cluster.scale * along / norm2 if norm2 else 0.0
    same = scale and same_numbers(cluster.shape, cluster.scale, shape, scale, cluster.systems, setting)
    return scale if same else None


def _bonus(formula: Formula, cluster: Cluster, subject: Subject) -> float:
    natural = isinstance(formula.shape, Unreduced) and str(formula.scale) == group_count(formula.shape.group)
    reports = look_alikes(formula.pattern, [formula.text], cluster.families, whole=subject.whole)
    if not reports:
        return _NATURAL_BONUS * natural
    same = any(fault.id in reports and subject.framework in fault.frameworks for fault in load_catalogue())
    return _NATURAL_BONUS * natural + (_FRAMEWORK_BONUS if same else _REPORT_BONUS)


def distinct(formulas: Sequence[Formula]) -> list[Formula]:
    """Formulas that are not the same by definition."""
    seen: set[object] = set()
    kept: list[Formula] = []
    for formula in formulas:
        key = (type(formula.shape), getattr(formula.shape, "pattern", None), formula.shape, formula.scale.definition)
        if key not in seen and formula.text not in {other.text for other in kept}:
            seen.add(key)
            kept.append(formula)
    return kept


def _plain(value: float, tolerance: float) -> float:
    """The number of fewest digits that is within the tolerance and keeps what sets it apart from 1."""
    allowed = min(tolerance, 0.1 * abs(value - 1)) if value != 1 else tolerance
    for digits in range(1, 16):
        rounded = float(f"{value:.{digits}g}")
        if rounded and abs(rounded / value - 1) <= allowed:
            return rounded
    return value


def _clipped(cluster: Cluster, subject: Subject) -> bool:
    """Whether one factor over all parameters left a gradient whose norm is a round number, as clipping does."""
    if not subject.whole or subject.total_norm is None or not isinstance(cluster.shape, Uniform):
        return False
    return any(abs(subject.total_norm / norm - 1) <= max(1e-5, cluster.scale_tolerance) for norm in _ROUND_NORMS)


def _wrong_clip(cluster: Cluster, subject: Subject) -> str | None:
    """The formula of a clip that was left out, or turned upside down, where one factor over all parameters says so."""
    if not subject.whole or not isinstance(cluster.shape, Uniform):
        return None
    allowed = max(1e-5, cluster.scale_tolerance)
    return next((name for name, value in subject.clips.items() if abs(cluster.scale / value - 1) <= allowed), None)


def separating(best: Formula, ties: Sequence[Formula], setting: Setting) -> str | None:
    """The smallest layout in which no tie gives the numbers of the best formula, and its shape can still be seen."""
    present = setting.layout
    least = 1 if isinstance(best.shape, Uniform) else min(2, present.accum)
    layouts = [
        Layout(dp=dp, ep=ep, accum=accum, tp=present.tp, pp=present.pp, cp=present.cp)
        for dp, ep, accum in product(range(2, 13), (1, 2, 3, 4, 6), (1, 2, 3, 4, 5))
        if dp % ep == 0 and (ep > 1) == (present.ep > 1) and accum >= least
    ]
    for layout in sorted(layouts, key=lambda layout: (layout.units, layout.dp)):
        tokens = 7.0 + 3.0 * np.arange(layout.units, dtype=np.float64).reshape(layout.dp, layout.accum)
        there = Setting(layout=layout, tokens=tokens)
        if all(_differ(best, tie, there) for tie in ties):
            return str(layout)
    return None


def _differ(one: Formula, two: Formula, setting: Setting) -> bool:
    place = Place(owner=0, stage=1)
    first, second = one.shape.weights(setting, place), two.shape.weights(setting, place)
    if first is None or second is None:
        return False
    return not np.allclose(
        one.scale.value(setting.values) * first, two.scale.value(setting.values) * second, rtol=1e-6, atol=1e-9
    )
