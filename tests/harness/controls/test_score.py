"""Faults put into references: a good golden shows all of them, a weak one is refused."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from gradassay.goldens.errors import GoldenRefused
from gradassay.goldens.golden import Golden
from gradassay.goldens.header import Controls
from gradassay.goldens.layout import Layout
from gradassay.goldens.record import Record
from gradassay.harness.build.checks import check_controls
from gradassay.harness.controls import control_score, trials
from gradassay.harness.controls.trials import MOST_RECORDS, chosen

LAYOUTS = [Layout(), Layout(dp=2), Layout(dp=4, accum=3), Layout(dp=2, accum=2), Layout(dp=2, accum=3)]


@pytest.fixture(scope="module")
def toy(make_toy: Callable[..., Any]) -> Any:
    return make_toy(families={"dense": [(24, 16), (24, 16), (48,)], "norm": [(64,), (64,)]}, units=12)


@pytest.fixture(scope="module")
def problem(toy: Any) -> Any:
    """The toy as the part of a problem that faults need."""
    return SimpleNamespace(
        name=toy.problem.name,
        objective=toy.objective,
        terms=(),
        parameters=toy.parameters,
        tokens=lambda unit: toy.tokens[unit],
        experts=0,
    )


@pytest.fixture(scope="module")
def records(toy: Any, make_record: Callable[..., Record]) -> dict[str, Record]:
    return {str(layout): make_record(toy, layout=layout) for layout in LAYOUTS}


def test_a_good_golden_shows_and_names_all_of_them(
    toy: Any, problem: Any, records: dict[str, Record], make_golden: Callable[..., Golden]
) -> None:
    score = control_score(make_golden(toy), records, problem)
    assert (score.undetected, score.unnamed) == ((), ())
    assert score.kinds >= 24
    assert score.layouts == ("dp2.accum2", "dp2.accum3", "dp4.accum3")
    assert (score.detected, score.named) == (1.0, 1.0)
    check_controls(score)


def test_every_family_is_tried_alone(
    toy: Any, problem: Any, records: dict[str, Record], make_golden: Callable[..., Golden]
) -> None:
    tried = [trial.text for trial in trials(make_golden(toy), records, problem)]
    assert {"last-only", "last-only:dense", "last-only:norm"} <= {text.replace(":all", "") for text in tried}


def test_a_golden_of_much_noise_is_refused(
    toy: Any, problem: Any, records: dict[str, Record], make_golden: Callable[..., Golden]
) -> None:
    score = control_score(make_golden(toy, noise=0.4), records, problem)
    assert score.detected < 1
    assert any(one.startswith("uniform:all:scale=1.05 ") for one in score.undetected)
    with pytest.raises(GoldenRefused, match="would not be seen: uniform"):
        check_controls(score)


def test_records_in_which_most_can_go_wrong_come_first(records: dict[str, Record]) -> None:
    found = [str(record.header.layout) for record in chosen(records)]
    assert found[0] == "dp4.accum3"
    assert len(found) == MOST_RECORDS


def test_shares_of_nothing_are_nothing() -> None:
    assert (Controls(tried=0, kinds=0, layouts=()).detected, Controls(tried=0, kinds=0, layouts=()).named) == (0.0, 0.0)
