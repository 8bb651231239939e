"""Planned layouts keep laws apart: checked by brute force, with weights computed from their texts."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from foreign import Sizes
from gradassay.goldens.assay.naming import Formula
from gradassay.goldens.assay.plan import plan_layouts
from gradassay.goldens.assay.scale import Scale
from gradassay.goldens.assay.shapes import Geometric, Linear, MicroStep, TokenWeighting, Uniform
from gradassay.goldens.layout import Layout
from law_text import claimed

DP, EP, EDP, ACCUM = (Scale(powers=((name, 1),)) for name in ("dp", "ep", "edp", "accum"))
TWO, LESS = Scale(constant=2.0), Scale(powers=(("dp", -1),))
LAWS = [
    *(Formula(shape=Uniform(), scale=scale) for scale in (DP, EP, EDP, ACCUM, LESS, TWO)),
    *(Formula(shape=Geometric(base, rising), scale=Scale()) for base in (DP, EP, TWO) for rising in (True, False)),
    Formula(shape=Geometric(DP, rising=True), scale=DP),
    *(Formula(shape=MicroStep(last), scale=scale) for last in (True, False) for scale in (Scale(), ACCUM)),
    *(Formula(shape=Linear(rising), scale=Scale()) for rising in (True, False)),
    *(Formula(shape=TokenWeighting("unit", inverse), scale=Scale()) for inverse in (True, False)),
]  # fmt: skip


def weights(text: str, layout: Layout) -> np.ndarray:
    tokens = [7 + 3 * unit for unit in range(layout.units)]
    return claimed(text, Sizes(**layout.to_json()), tokens)


@pytest.mark.parametrize(("ranks", "units"), [(4, 12), (6, 24)])
def test_laws_differ_somewhere_in_the_plan(ranks: int, units: int) -> None:
    plan = plan_layouts(max_ranks=ranks, max_units=units)
    tied = [set(group) for group in plan.ties]
    for one, other in combinations(LAWS, 2):
        if any({one.text, other.text} <= group for group in tied):
            continue
        assert any(
            not np.allclose(weights(one.text, layout), weights(other.text, layout), rtol=1e-6)
            for layout in plan.layouts
        ), (one.text, other.text)


def test_a_plan_is_within_its_limits_and_has_no_idle_layout() -> None:
    plan = plan_layouts(max_ranks=6, max_units=12)
    assert all(layout.dp <= 6 and layout.units <= 12 for layout in plan.layouts)
    assert len(set(plan.layouts)) == len(plan.layouts)
    assert plan.laws > len(LAWS)


def test_only_allowed_layouts_are_planned() -> None:
    plan = plan_layouts(max_ranks=6, max_units=24, allowed=lambda layout: layout.ep == 1)
    assert all(layout.ep == 1 for layout in plan.layouts)
    tied = {frozenset(group) for group in plan.ties}
    assert any({"dp", "edp"} <= group for group in tied), "without expert parallelism nothing tells edp from dp"


def test_one_layout_is_not_enough() -> None:
    """Negative control: a single layout leaves ties that a plan does not."""
    alone = plan_layouts(max_ranks=4, max_units=12, allowed=lambda layout: layout == Layout(dp=4, ep=2, accum=2))
    whole = plan_layouts(max_ranks=4, max_units=12)
    assert sum(map(len, alone.ties)) > sum(map(len, whole.ties))
    assert any({"ep", "accum"} <= set(group) for group in alone.ties)
