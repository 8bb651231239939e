from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from gradassay.goldens.errors import UsageError
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
    windows = json.loads(run(framework, strategy, problem, layout, function="deepspeed_ranks:compare_ways").read_text())
    assert len(windows) == 2
    for ranks in windows:
        assert len(ranks) == Layout.parse(layout).dp
        differences = [difference for rank in ranks for difference in rank.values()]
        assert max(difference["accessor"] for difference in differences) == 0
        assert max(difference["value"] for difference in differences) == 0
        assert max(difference["update"] for difference in differences) < ROUNDING
        assert max(difference["moved"] for difference in differences) > 0.01


@pytest.mark.parametrize("framework", [NEWEST, BROKEN])
@pytest.mark.parametrize("stage", [0, 1, 2, 3])
@pytest.mark.parametrize("accum", [1, 2])
def test_wrong_moments_of_an_engine_are_told(run: Run, framework: str, stage: int, accum: int) -> None:
    path = run(
        framework, f"deepspeed-zero{stage}", "dense-tiny", f"dp2.accum{accum}", function="deepspeed_ranks:moments"
    )
    found = dict(json.loads(path.read_text()))
    last = accum - 1
    for window in range(2):
        assert found.pop(f"backward {window}.{last}") is None
        assert found.pop(f"step {window}.{last}").startswith("no gradients: no backward pass since update number")
        # Between the last forward and backward pass an engine of stage 0 does not know.
        before = found.pop(f"forward {window}.{last}")
        assert before is None if stage == 0 and accum > 1 else before is not None
    assert found.pop("start") == "no gradients: no backward pass since the start"
    if stage < 2 and framework == NEWEST:
        assert "under no_sync()" in found.pop("within no_sync")
    assert len(found) == 2 * 3 * (accum - 1)
    assert all(
        message is not None and "no gradient" in message for place, message in found.items() if "forward" in place
    )
    assert all("window is not over" in message for place, message in found.items() if "forward" not in place)


@pytest.mark.parametrize("framework", [NEWEST, BROKEN])
@pytest.mark.parametrize(("stage", "scale"), [(1, "dynamic"), (2, "1024"), (3, "dynamic")])
def test_half_precision_gradients_are_unscaled(
    run: Run, units: Any, deviations: Any, framework: str, stage: int, scale: str
) -> None:
    options = {"fp16_loss_scale": scale}
    strategy = f"deepspeed-zero{stage}"
    path = run(framework, strategy, "dense-tiny", "dp2.accum2", function="deepspeed_ranks:half", **options)
    found = deviations(path, units("dense-tiny", 4).truth)
    assert 1e-6 < max(family.error for family in found.values()) < 0.01, found
    assert read_record(path).header.environment["parameter_dtype"] == "float16"


@pytest.mark.parametrize(("framework", "scale"), [(NEWEST, 1 / 1024), (BROKEN, 1.0)])
def test_newest_never_applies_the_loss_scale_of_stage_0(
    run: Run, units: Any, deviations: Any, framework: str, scale: float
) -> None:
    path = run(
        framework, "deepspeed-zero0", "dense-tiny", "dp2", function="deepspeed_ranks:half", fp16_loss_scale="1024"
    )
    for family in deviations(path, units("dense-tiny", 2).truth).values():
        assert family.low == pytest.approx(scale, rel=0.01)
        assert family.high == pytest.approx(scale, rel=0.01)


@pytest.mark.parametrize("framework", [NEWEST, BROKEN])
def test_accumulation_in_float32_is_read_from_the_other_optimizer_of_stage_1(
    run: Run, units: Any, deviations: Any, framework: str
) -> None:
    path = run(framework, "deepspeed-zero1", "dense-tiny", "dp2.accum3", dtype="bfloat16", grad_accum_dtype="fp32")
    found = deviations(path, units("dense-tiny", 6).truth)
    assert max(family.error for family in found.values()) < 0.02, found
    assert read_record(path).header.environment["accumulate_dtype"] == "float32"


def test_half_precision_is_refused_where_deepspeed_has_none(run: Run) -> None:
    with pytest.raises(
        UsageError, match=r"fp16_loss_scale = dynamic needs fp16, which DeepSpeed 0\.15\.3 does not run"
    ):
        run(BROKEN, "deepspeed-zero2", "dense-tiny", "dp2", fp16_loss_scale="dynamic")


@pytest.mark.parametrize(
    ("strategy", "problem", "options"),
    [
        ("deepspeed-zero0", "moe-tiny", {"prescale_gradients": "true", "gradient_predivide_factor": "4.0"}),
        ("deepspeed-zero1", "moe-tiny", {"overlap_comm": "true", "gradient_predivide_factor": "2.0"}),
        ("deepspeed-zero2", "dense-tiny", {"reduce_scatter": "false", "gradient_predivide_factor": "4.0"}),
        ("deepspeed-zero2", "dense-tiny", {"contiguous_gradients": "false", "overlap_comm": "true"}),
        ("deepspeed-zero3", "dense-tiny", {"reduce_scatter": "false", "prescale_gradients": "true"}),
        ("deepspeed-zero3", "dense-tiny", {"scale_wrt_gas": "false"}),
    ],
)
def test_options_that_change_reduction_keep_the_gradient(
    run: Run, units: Any, deviations: Any, strategy: str, problem: str, options: dict[str, str]
) -> None:
    found = deviations(run(NEWEST, strategy, problem, "dp2.accum2", **options), units(problem, 4).truth)
    assert max(family.error for family in found.values()) < ROUNDING, found


def test_a_reduction_in_bfloat16_costs_precision_and_is_on_the_record(run: Run, units: Any, deviations: Any) -> None:
    path = run(NEWEST, "deepspeed-zero2", "dense-tiny", "dp2.accum2", communication_data_type="bf16")
    found = deviations(path, units("dense-tiny", 4).truth)
    assert all(2.0**-12 < family.error < 2.0**-7 for family in found.values()), found
    assert read_record(path).header.environment["reduce_dtype"] == "bfloat16"


@pytest.mark.parametrize("strategy", ["deepspeed-zero1", "deepspeed-zero2"])
def test_old_releases_reduce_nothing_on_cpus_without_contiguous_gradients(
    run: Run, units: Any, deviations: Any, strategy: str
) -> None:
    truth = units("dense-tiny", 4).truth
    broken = deviations(run(BROKEN, strategy, "dense-tiny", "dp2.accum2", contiguous_gradients="false"), truth)
    assert min(family.error for family in broken.values()) > 0.1, broken
    fixed = deviations(run(NEWEST, strategy, "dense-tiny", "dp2.accum2", contiguous_gradients="false"), truth)
    assert max(family.error for family in fixed.values()) < ROUNDING, fixed


def test_newest_adds_up_different_experts_without_contiguous_gradients(run: Run, units: Any, deviations: Any) -> None:
    path = run(NEWEST, "deepspeed-zero1", "moe-tiny", "dp4.ep2", contiguous_gradients="false")
    truth = units("moe-tiny", 4).truth

    def mixed(name: str) -> NDArray[np.float64]:
        match = re.fullmatch(r"(.*\.experts\.)(\d+)(\..*)", name)
        both = (name,) if match is None else [f"{match[1]}{int(match[2]) % 6 + more}{match[3]}" for more in (0, 6)]
        found: NDArray[np.float64] = sum(truth(each) for each in both)
        return found

    assert deviations(path, truth)["expert"].error > 0.1
    found = deviations(path, mixed)
    assert max(family.error for family in found.values()) < ROUNDING, found


@pytest.mark.slow
@pytest.mark.parametrize(
    ("release", "strategy", "problem", "layout", "options", "expert", "rest"),
    [
        ("0.18.3", "deepspeed-zero1", "dense-tiny", "dp2.accum3", {"scale_wrt_gas": "false"}, None, 1 / 3),
        ("0.18.4", "deepspeed-zero1", "dense-tiny", "dp2.accum3", {"scale_wrt_gas": "false"}, None, 1.0),
        ("0.13.0", "deepspeed-zero2", "moe-tiny", "dp4.ep4", {}, 4.0, 1 / 4),
        ("0.13.1", "deepspeed-zero2", "moe-tiny", "dp4.ep4", {}, 4.0, 1.0),
        ("0.15.1", "deepspeed-zero1", "moe-tiny", "dp4.ep2", {}, 2.0, 1.0),
        ("0.15.4", "deepspeed-zero1", "moe-tiny", "dp4.ep2", {}, 1.0, 1.0),
    ],
)
def test_scales_of_other_releases(
    run: Run,
    units: Any,
    deviations: Any,
    release: str,
    strategy: str,
    problem: str,
    layout: str,
    options: dict[str, str],
    expert: float | None,
    rest: float,
) -> None:
    path = run(f"deepspeed=={release}", strategy, problem, layout, **options)
    truth = units(problem, Layout.parse(layout).units).truth
    found = deviations(path, truth, lambda family: expert if expert and family == "expert" else rest)
    assert max(family.error for family in found.values()) < ROUNDING, found
    parts = read_record(path).header.environment.get("stand_in", {}).get("parts", [])
    assert ("intel_extension_for_pytorch" in parts) == release.startswith("0.13")


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
    with pytest.raises(UsageError, match="MoE layer refuses ZeRO stage 3"):
        run(NEWEST, "deepspeed-zero3", "moe-tiny", "dp2.ep2")
