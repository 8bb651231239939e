"""Ten thousand parameters: searched, sorted and paged."""

from __future__ import annotations

import random
from typing import Any

import pytest

from gradassay.api.judging.parameters import Order, in_order, searched


@pytest.fixture(scope="module")
def parameters() -> list[dict[str, Any]]:
    """In the order of a model; some without a ratio."""
    chance = random.Random(0)
    return [
        {
            "name": f"layers.{number}.{chance.choice(['attention', 'mlp'])}.weight",
            "family": chance.choice(["dense", "expert"]),
            "verdict": chance.choice(["agree", "agree", "diverge"]),
            "ratio": None if number % 97 == 0 else chance.choice([1.0, 2.0, 0.5, -1.0, 1 + 1e-9]),
            "residual": None if number % 97 == 0 else chance.random(),
            "tolerance": 1e-6,
        }
        for number in range(10_000)
    ]


def test_search_family_and_verdict_narrow_together(parameters: list[dict[str, Any]]):
    found = searched(parameters, text="MLP", family="expert", verdict="diverge")
    assert 500 < len(found) < 1500
    assert all("mlp" in one["name"] and (one["family"], one["verdict"]) == ("expert", "diverge") for one in found)
    assert searched(parameters) == parameters
    assert searched(parameters, text="no such name") == []


@pytest.mark.parametrize("order", list(Order))
@pytest.mark.parametrize("descending", [False, True])
def test_every_order_keeps_everything_and_does_not_depend_on_where_it_began(
    parameters: list[dict[str, Any]], order: Order, descending: bool
):
    ordered = in_order(parameters, order, descending=descending)
    assert len(ordered) == len(parameters)
    assert {one["name"] for one in ordered} == {one["name"] for one in parameters}
    if order is not Order.MODEL:
        assert in_order(parameters[::-1], order, descending=descending) == ordered


def test_worst_ratio_is_first_whichever_way_it_is_wrong(parameters: list[dict[str, Any]]):
    ratios = [one["ratio"] for one in in_order(parameters, Order.RATIO, descending=True)]
    known = [ratio for ratio in ratios if ratio is not None]
    assert ratios == known + [None] * (len(ratios) - len(known))
    assert known[0] == -1.0
    assert {known[known.count(-1.0)], known[known.count(-1.0) + 1]} <= {2.0, 0.5}
    assert known[-1] == 1.0
