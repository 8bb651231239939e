"""The study of naming: nothing is wrong in a few draws, and a wrong law would be seen as such."""

from __future__ import annotations

from collections import Counter
from typing import Any

import conditioning_report
import naming_report
import numpy as np
import pytest

import builders
from gradassay.goldens.layout import Layout
from gradassay.harness.controls import altered
from gradassay.harness.faults import parse_fault


@pytest.fixture(scope="module")
def world() -> Any:
    return naming_report.World.make(1)


def test_no_drawn_law_is_wrong_or_unseen(world: Any) -> None:
    outcomes = Counter(outcome for _, outcome, _ in naming_report.drawn(world, 40, 5))
    assert outcomes["right"] + outcomes["tied"] == 40
    assert outcomes["right"] > 30


@pytest.mark.parametrize(
    ("injected", "judged_as", "outcome"),
    [
        ("uniform:dense:scale=dp", "uniform:dense:scale=dp", "right"),
        ("uniform:dense:scale=dp", "uniform:dense:scale=1/dp", "wrong"),
        ("geometric:all:base=dp,scale=dp", "linear:all", "wrong"),
        ("geometric:all:base=dp,scale=dp", "geometric:all:base=dp,scale=dp", "right"),
    ],
)
def test_a_wrong_law_is_seen_as_such(world: Any, injected: str, judged_as: str, outcome: str) -> None:
    site = world.site(Layout(dp=5, accum=3))
    record = altered(world.record(site.layout, 0), parse_fault(injected), site, world.golden)
    assert naming_report.outcome_of(world, parse_fault(judged_as), record, site) == outcome


def test_an_honest_record_shows_no_fault(world: Any) -> None:
    site = world.site(Layout(dp=5, accum=3))
    assert naming_report.outcome_of(world, parse_fault("sign"), world.record(site.layout, 0), site) == "unseen"


def test_hard_units_give_no_wrong_law() -> None:
    for hard in conditioning_report.HARD:
        found = conditioning_report.tried(hard, 1)
        assert found["wrong"] == found["passed"] == 0, hard.title


def test_weights_that_were_not_put_in_are_wrong() -> None:
    toy, layout = conditioning_report.HARD[1].make(0)
    weights = np.ones((layout.dp, layout.accum))
    weights[1] = 0.0
    golden = builders.make_golden(toy)
    record = builders.make_record(toy, layout=layout, weights=dict.fromkeys(conditioning_report.SHAPES, weights))
    assert conditioning_report.outcome_of(golden, record, weights) == "named"
    assert conditioning_report.outcome_of(golden, record, np.ones_like(weights)) == "wrong"
    assert conditioning_report.outcome_of(golden, builders.make_record(toy, layout=layout, seed=2), weights) == "passed"
