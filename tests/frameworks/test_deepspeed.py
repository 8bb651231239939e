from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from gradassay.goldens.errors import CellFailed
from gradassay.goldens.layout import Layout
from gradassay.goldens.record import read_record

pytestmark = [pytest.mark.dist, pytest.mark.frameworks]

NEWEST = "deepspeed==0.19.8"
BROKEN = "deepspeed==0.15.3"
"""The last release before the fix of DeepSpeed 6545."""

ROUNDING = 1e-6

Run = Callable[..., Path]


@pytest.mark.parametrize(
    ("strategy", "problem", "layout"),
    [
        ("deepspeed-zero0", "moe-tiny", "dp4.ep2.accum2"),
        ("deepspeed-zero1", "moe-tiny", "dp4.ep4"),
        ("deepspeed-zero2", "moe-tiny", "dp4.ep2.accum3"),
        ("deepspeed-zero2", "ragged-tiny", "dp4.accum2"),
        ("deepspeed-zero3", "ragged-tiny", "dp4.accum2"),
        ("deepspeed-zero3", "moe-tiny", "dp2"),
    ],
)
def test_newest_agrees_with_the_truth(
    run: Run, units: Any, deviations: Any, strategy: str, problem: str, layout: str
) -> None:
    path = run(NEWEST, strategy, problem, layout)
    found = deviations(path, units(problem, Layout.parse(layout).units).truth)
    assert max(family.error for family in found.values()) < ROUNDING, found
    header = read_record(path).header
    assert (header.framework.name, header.framework.version) == ("deepspeed", "0.19.8")


@pytest.mark.parametrize(
    ("strategy", "layout", "factor"),
    [("deepspeed-zero0", "dp4.ep2", 1), ("deepspeed-zero1", "dp4.ep2.accum2", 2), ("deepspeed-zero2", "dp4.ep4", 4)],
)
def test_broken_release_scales_experts_by_ep(
    run: Run, units: Any, deviations: Any, strategy: str, layout: str, factor: int
) -> None:
    path = run(BROKEN, strategy, "moe-tiny", layout)
    truth = units("moe-tiny", Layout.parse(layout).units).truth
    found = deviations(path, truth)
    expert = found.pop("expert")
    assert expert.low == pytest.approx(factor, rel=ROUNDING)
    assert expert.high == pytest.approx(factor, rel=ROUNDING)
    assert max(family.error for family in found.values()) < ROUNDING, found
    assert (expert.error < ROUNDING) == (factor == 1)
    scaled = deviations(path, truth, lambda family: factor if family == "expert" else 1.0)
    assert scaled["expert"].error < ROUNDING


def test_bfloat16_shows_the_same_factor(run: Run, units: Any, deviations: Any) -> None:
    truth = units("moe-tiny", 4).truth
    broken = deviations(run(BROKEN, "deepspeed-zero2", "moe-tiny", "dp4.ep2", dtype="bfloat16"), truth)
    assert broken["expert"].low == pytest.approx(2, rel=0.01)
    assert broken["expert"].high == pytest.approx(2, rel=0.01)
    newest = deviations(run(NEWEST, "deepspeed-zero2", "moe-tiny", "dp4.ep2", dtype="bfloat16"), truth)
    assert max(family.error for family in newest.values()) < 0.02, newest


@pytest.mark.parametrize(
    ("framework", "strategy", "problem", "layout"),
    [
        (NEWEST, "deepspeed-zero0", "moe-tiny", "dp4.ep2.accum2"),
        (NEWEST, "deepspeed-zero1", "moe-tiny", "dp4.ep2.accum2"),
        (NEWEST, "deepspeed-zero2", "moe-tiny", "dp4.ep2"),
        (NEWEST, "deepspeed-zero3", "dense-tiny", "dp4.accum2"),
        (BROKEN, "deepspeed-zero2", "moe-tiny", "dp4.ep2"),
    ],
)
def test_pieces_are_what_the_accessor_and_the_optimizer_see(
    run: Run, framework: str, strategy: str, problem: str, layout: str
) -> None:
    ranks = json.loads(run(framework, strategy, problem, layout, function="deepspeed_ranks:compare_ways").read_text())
    assert len(ranks) == 4
    differences = [difference for rank in ranks for difference in rank.values()]
    assert max(difference["accessor"] for difference in differences) == 0
    assert 0 < max(difference["update"] for difference in differences) < ROUNDING


@pytest.mark.parametrize(
    ("strategy", "problem"),
    [
        ("deepspeed-zero0", "moe-tiny"),
        ("deepspeed-zero1", "moe-tiny"),
        ("deepspeed-zero2", "moe-tiny"),
        ("deepspeed-zero3", "dense-tiny"),
    ],
)
def test_interference_reaches_the_reduced_gradient(
    run: Run, units: Any, deviations: Any, strategy: str, problem: str
) -> None:
    layout = Layout(dp=2, accum=2)
    path = run(NEWEST, strategy, problem, str(layout), function="deepspeed_ranks:disturbed")
    basis = units(problem, layout.units)

    def expected(name: str) -> NDArray[np.float64]:
        tripled = np.ones(layout.units)
        if ".experts." in name or "norm" in name:
            tripled[layout.unit(1, 0)] = 3
        doubled = np.zeros(layout.units)
        doubled[layout.unit(1, layout.accum - 1)] = 1
        found: NDArray[np.float64] = (
            basis.coefficients * tripled @ basis.loss[name] + basis.coefficients * doubled @ basis.auxiliary[name]
        )
        return found

    disturbed = deviations(path, expected)
    assert max(family.error for family in disturbed.values()) < ROUNDING, disturbed
    assert deviations(path, basis.truth)["norm"].error > 0.1


def test_what_deepspeed_refuses_is_said_before_its_ranks_run(run: Run) -> None:
    with pytest.raises(CellFailed, match="MoE layer refuses ZeRO stage 3"):
        run(NEWEST, "deepspeed-zero3", "moe-tiny", "dp2.ep2")
