"""The page of one assay, made from its document."""

from __future__ import annotations

from typing import Any

import numpy as np

from builders import make_golden, make_record, make_toy
from gradassay.api.web.views.assay import AssayPage
from gradassay.api.web.views.parameters import Wanted
from gradassay.goldens.assay.compare import assay_record
from gradassay.goldens.assay.records import assay_records
from gradassay.goldens.layout import Layout
from gradassay.goldens.report.json import to_json

LAYOUT = Layout(dp=4, ep=2, accum=3)


def page(**options: Any) -> AssayPage:
    toy = make_toy()
    assay = assay_record(make_record(toy, layout=LAYOUT, **options), make_golden(toy))
    return AssayPage(to_json(assay), Wanted())


def test_finding_has_its_weights_as_a_heatmap():
    shown = page(weights={"expert": 2.0})
    (finding,) = shown.findings
    assert shown.sentence.startswith("2 of 2 expert parameters are too large")
    assert [len(drawn.cells) for drawn in finding.maps] == [4 * 3]
    assert {cell.text for cell in finding.maps[0].cells} == {"2"}
    assert finding.sixteenths is None


def test_owners_that_differ_have_one_heatmap_each():
    weights = np.zeros((4, 4, 3))
    for rank in range(4):
        weights[rank, rank] = 4.0
    (finding,) = page(sharded=True, weights={"expert": weights}).findings
    assert [drawn.grid.owner for drawn in finding.maps] == [0, 1, 2, 3]


def test_two_runs_alone_draw_no_weights():
    toy = make_toy()
    a, b = make_record(toy, layout=LAYOUT), make_record(toy, layout=LAYOUT, weights={"expert": 2.0}, seed=2)
    (finding,) = AssayPage(to_json(assay_records(a, b)), Wanted()).findings
    assert finding.words.pictures
    assert finding.maps == ()


def test_table_alone_costs_no_more_than_the_table():
    document = to_json(assay_record(make_record(make_toy(), layout=LAYOUT), make_golden(make_toy())))
    shown = AssayPage({name: document[name] for name in ("parameters", "findings")}, Wanted(search="norm"))
    assert [row.name for row in shown.table.rows] == ["norm.0.weight"]
