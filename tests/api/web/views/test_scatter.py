"""What the charts are drawn from, of assays as they really come."""

from __future__ import annotations

import json
from typing import Any

import pytest

from builders import make_golden, make_record, make_toy
from gradassay.api.web.views.scatter import guides, scatter
from gradassay.goldens.assay.compare import assay_record
from gradassay.goldens.layout import Layout
from gradassay.goldens.report.json import to_json


def document(**options: Any) -> dict[str, Any]:
    toy = make_toy()
    return to_json(assay_record(make_record(toy, layout=Layout(dp=4, ep=2, accum=3), **options), make_golden(toy)))


def test_guides_are_the_sizes_of_the_layout_and_their_inverses():
    assert [label for _, label in guides(Layout(dp=4, ep=2, accum=3).to_json())] == [
        "1/dp = 1/4",
        "1/accum = 1/3",
        "1/ep = 1/2",
        "1",
        "ep = 2",
        "accum = 3",
        "dp = 4",
    ]
    assert guides(Layout(dp=4, accum=4).to_json()) == (
        (0.25, "1/dp, 1/accum = 1/4"),
        (1.0, "1"),
        (4.0, "dp, accum = 4"),
    )
    assert guides(Layout().to_json()) == ((1.0, "1"),)


def test_points_are_every_parameter_in_the_models_order():
    plotted = scatter(document(weights={"expert": 2.0}))
    points = plotted.points
    assert points["names"][0] == "dense.0.weight"
    assert [points["families"][family] for family in points["family"]] == ["dense"] * 2 + ["expert"] * 2 + ["norm"]
    assert points["ratio"][2:4] == pytest.approx([2.0, 2.0], rel=1e-5)
    assert points["diverge"] == [0, 0, 1, 1, 0]
    assert (points["low"], points["high"]) == (0.125, 8.0)
    assert json.loads(json.dumps(points, allow_nan=False)) == points


@pytest.mark.parametrize("weight", [1e-4, 300.0])
def test_axis_reaches_every_ratio_in_whole_powers(weight: float):
    points = scatter(document(weights={"expert": weight})).points
    assert points["low"] < weight < points["high"]
    assert points["low"] <= 0.25
    assert points["high"] >= 4


def test_what_has_no_place_on_the_axis_is_counted():
    plotted = scatter(document(weights={"norm": -1.0, "dense.0.weight": 0.0}))
    assert plotted.ratios_off_axis == 2
    assert plotted.points["ratio"].count(None) == 2


def test_families_are_summed_up():
    families = {one.family: one for one in scatter(document(weights={"expert.0.weight": 2.0})).families}
    expert = families["expert"]
    assert (expert.parameters, expert.diverging) == (2, 1)
    assert expert.greatest_ratio == pytest.approx(2.0, rel=1e-5)
    assert expert.least_ratio == pytest.approx(1.0, rel=1e-5)
    assert expert.median_ratio == pytest.approx(1.5, rel=1e-5)
    assert families["norm"].diverging == 0
    assert families["norm"].greatest_residual <= families["norm"].tolerance
