"""One law in every cell of a matrix, and layouts that keep laws apart."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
import pytest

from gradassay.goldens.assay.compare import assay_record
from gradassay.goldens.assay.joint import explain_jointly
from gradassay.goldens.assay.plan import plan_layouts
from gradassay.goldens.layout import Layout


@pytest.fixture(scope="module")
def toy(make_toy: Any) -> Any:
    return make_toy(families={"dense": [(24, 16), (48,)], "expert": [(40, 36)] * 3}, units=16)


@pytest.fixture(scope="module")
def assays(toy: Any, make_golden: Any, make_record: Any) -> Any:
    """Assays of records with these weights in these layouts."""
    golden = make_golden(toy)

    def run(cells: dict[str, dict[str, Any]]) -> list[Any]:
        return [
            assay_record(make_record(toy, layout=Layout.parse(layout), weights=weights), golden)
            for layout, weights in cells.items()
        ]

    return run


def geometric(layout: str) -> np.ndarray:
    sizes = Layout.parse(layout)
    return np.tile(float(sizes.dp) ** (np.arange(sizes.accum) - sizes.accum + 2), (sizes.dp, 1))


def test_two_cells_leave_one_name(assays: Any) -> None:
    alone = assays({"dp4.ep2.accum3": {"expert": 2.0}})
    assert "edp" in alone[0].findings[0].law.ties
    (joint,) = explain_jointly(assays({"dp4.ep2.accum3": {"expert": 2.0}, "dp4.ep4.accum3": {"expert": 4.0}}))
    assert joint.law.formula == "w[r,m] = ep"
    assert joint.law.ties == ()
    assert joint.families == ("expert",)
    assert len(joint.cells) == 2
    assert joint.known_faults[0] == "deepspeed-6545"


def test_cells_that_agree_speak_against_constants(assays: Any) -> None:
    cells = {"dp4.ep2.accum3": {"expert": 2.0}, "dp6.ep2": {"expert": 2.0}}
    (joint,) = explain_jointly(assays(cells))
    assert {joint.law.scale, *joint.law.ties} >= {"ep", "2"}
    (joint,) = explain_jointly(assays(cells | {"dp4.accum3": {}}))
    assert joint.law.scale == "ep"
    assert "2" not in joint.law.ties


def test_without_accumulation_the_geometric_law_still_holds(assays: Any) -> None:
    layouts = ("dp4.ep2.accum3", "dp4.ep2", "dp2.ep2.accum4")
    (joint,) = explain_jointly(assays({layout: {"dense": geometric(layout)} for layout in layouts}))
    assert joint.law.formula == "w[r,m] = dp**(m-M+2)"
    assert "megatron-lm-3023" in joint.known_faults


def test_cells_that_contradict_each_other_have_no_law(assays: Any) -> None:
    (joint,) = explain_jointly(assays({"dp4.ep2.accum3": {"expert": 2.0}, "dp4.ep4.accum3": {"expert": 1 / 3}}))
    assert joint.law.confidence == 0.0
    assert "no one law" in joint.law.formula


def test_agreement_needs_no_law(assays: Any) -> None:
    assert explain_jointly(assays({"dp4.ep2.accum3": {}, "dp4": {}})) == ()


def test_planned_layouts_tell_scales_apart() -> None:
    plan = plan_layouts(max_ranks=6, max_units=24)
    assert plan.ties == ()
    assert all(layout.dp <= 6 and layout.units <= 24 for layout in plan.layouts)
    sizes = {
        "dp": lambda layout: layout.dp,
        "ep": lambda layout: layout.ep,
        "edp": lambda layout: layout.edp,
        "accum": lambda layout: layout.accum,
        "2": lambda layout: 2,
        "dp/2": lambda layout: layout.dp / 2,
        "1": lambda layout: 1,
    }
    for one, two in combinations(sizes, 2):
        assert any(sizes[one](layout) != sizes[two](layout) for layout in plan.layouts), (one, two)


def test_a_plan_says_what_it_cannot_tell_apart() -> None:
    plan = plan_layouts(max_ranks=1, max_units=4)
    assert any({"dp", "ep", "1"} <= set(group) for group in plan.ties)
