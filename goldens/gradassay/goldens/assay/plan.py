"""Which layouts to run so that no two laws give the same numbers in all of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gradassay.goldens.assay.cluster import description_bits
from gradassay.goldens.assay.joint import layouts_within
from gradassay.goldens.assay.naming import Formula
from gradassay.goldens.assay.scale import scales
from gradassay.goldens.assay.shapes import Place, Setting, Shape, known_shapes
from gradassay.goldens.layout import Layout

_SIMPLE_BITS = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Layouts in the order in which they separate most; ties: formulas that stay alike in all of them.

    laws: how many formulas were considered.
    """

    layouts: tuple[Layout, ...]
    ties: tuple[tuple[str, ...], ...]
    laws: int


def plan_layouts(*, max_ranks: int, max_units: int, allowed: Callable[[Layout], bool] = lambda _: True) -> Plan:
    """The fewest layouts, found greedily, that keep all simple laws apart.

    allowed: which layouts can be run at all (experts that divide, say).
    """
    layouts = [layout for layout in layouts_within(max_ranks=max_ranks, max_units=max_units) if allowed(layout)]
    formulas = list(_formulas(layouts))
    signatures = {layout: _signatures(formulas, layout) for layout in layouts}
    classes = [0] * len(formulas)
    chosen: list[Layout] = []
    while True:
        best, refined = None, classes
        for layout in layouts:
            ids: dict[object, int] = {}
            split = [ids.setdefault(key, len(ids)) for key in zip(classes, signatures[layout], strict=True)]
            if len(set(split)) > len(set(refined)):
                best, refined = layout, split
        if best is None:
            break
        chosen.append(best)
        classes = refined
    groups: dict[int, list[str]] = {}
    for formula, number in zip(formulas, classes, strict=True):
        groups.setdefault(number, []).append(formula.text)
    ties = tuple(tuple(group) for group in groups.values() if len(group) > 1)
    return Plan(layouts=tuple(chosen), ties=ties, laws=len(formulas))


def _formulas(layouts: list[Layout]) -> Iterator[Formula]:
    """Simple laws that differ by definition."""
    values = dict.fromkeys(("dp", "ep", "accum"), 2.0) | {"edp": 3.0}
    shapes: dict[Shape, None] = {}
    for layout in layouts:
        setting = Setting(layout=layout, tokens=np.ones((layout.dp, layout.accum)))
        shapes |= dict.fromkeys(known_shapes(setting, stages=1, owners=False))
    seen: set[object] = set()
    for shape in shapes:
        for scale in scales(values):
            if description_bits(shape, scale, expert=False) > _SIMPLE_BITS + shape.bits / 2:
                continue
            formula = Formula(shape=shape, scale=scale)
            key = (shape, scale.definition)
            if key not in seen:
                seen.add(key)
                yield formula


def _signatures(formulas: list[Formula], layout: Layout) -> list[bytes]:
    """What each formula gives in a layout, equal where two give the same."""
    tokens = 7.0 + 3.0 * np.arange(layout.units, dtype=np.float64).reshape(layout.dp, layout.accum)
    setting = Setting(layout=layout, tokens=tokens)
    weights: dict[Shape, NDArray[np.float64]] = {}
    for shape in dict.fromkeys(formula.shape for formula in formulas):
        found = shape.weights(setting, Place())
        weights[shape] = np.ones((layout.dp, layout.accum)) if found is None else np.ascontiguousarray(found)
    return [np.round(formula.scale.value(setting.values) * weights[formula.shape], 9).tobytes() for formula in formulas]
