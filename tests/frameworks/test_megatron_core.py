from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from gradassay.goldens.errors import UsageError
from gradassay.goldens.layout import Layout
from gradassay.goldens.record import read_record

pytestmark = [pytest.mark.dist, pytest.mark.frameworks, pytest.mark.slow]

NEWEST = "megatron-core==0.19.2"
NEWER = "megatron-core==0.16.1"
OLDER = "megatron-core==0.15.3"
BROKEN = "megatron-core==0.11.0"
"""The last release whose auxiliary loss is not weighted by tokens where the loss is."""

SHARDED = {"use_distributed_optimizer": "true"}
OVERLAPPED = {"overlap_grad_reduce": "true", "bucket_size": "1000"}
AVERAGED = {"average_in_collective": "true"}
BY_TOKEN = {"calculate_per_token_loss": "true"}
ACCURATE = {"reduce_scatter_with_fp32_accumulation": "true"}
ALLGATHER = {"moe_token_dispatcher_type": "allgather"}

ROUNDING = 2e-6

Run = Callable[..., Path]
Options = dict[str, str]


@pytest.mark.parametrize(
    ("framework", "problem", "layout", "options"),
    [
        (NEWEST, "moe-tiny", "dp4.ep2.accum3", {}),
        (NEWEST, "moe-tiny", "dp4.ep4.accum2", SHARDED | OVERLAPPED),
        (NEWEST, "moe-tiny", "dp4.ep2.accum2", SHARDED | ACCURATE),
        (NEWEST, "moe-tiny", "dp4.ep2.accum2", BY_TOKEN),
        (NEWEST, "moe-tiny", "dp6.ep2.accum2", AVERAGED | ALLGATHER),
        (NEWEST, "moe-tiny", "dp4.ep2.replicate2.accum2", SHARDED | AVERAGED),
        (NEWEST, "ragged-tiny", "dp4.accum2", SHARDED),
        (NEWER, "moe-tiny", "dp4.ep2.accum3", SHARDED),
        (NEWER, "moe-tiny", "dp2.accum4", OVERLAPPED),
        (NEWER, "moe-tiny", "dp4.replicate2.accum2", SHARDED | AVERAGED | OVERLAPPED),
        (NEWER, "ragged-tiny", "dp4.accum2", BY_TOKEN),
        (NEWER, "dense-tiny", "dp6", SHARDED | AVERAGED),
        (OLDER, "moe-tiny", "dp4.ep2.accum3", {}),
        (OLDER, "moe-tiny", "dp4.ep4", SHARDED),
        (BROKEN, "moe-tiny", "dp4.ep2.accum2", {}),
    ],
)
def test_agrees_with_the_truth(
    run: Run, units: Any, deviations: Any, framework: str, problem: str, layout: str, options: Options
) -> None:
    path = run(framework, "megatron-ddp", problem, layout, **options)
    found = deviations(path, units(problem, Layout.parse(layout).units).truth)
    assert max(family.error for family in found.values()) < ROUNDING, found
    header = read_record(path).header
    assert f"{header.framework.name}=={header.framework.version}" == framework


@pytest.mark.parametrize(
    ("framework", "options"),
    [(NEWEST, {}), (NEWER, SHARDED), (NEWER, SHARDED | AVERAGED | {"grad_reduce_in_fp32": "false"}), (OLDER, SHARDED)],
)
def test_bfloat16_agrees_within_its_rounding(
    run: Run, units: Any, deviations: Any, framework: str, options: Options
) -> None:
    path = run(framework, "megatron-ddp", "moe-tiny", "dp4.ep2.accum2", dtype="bfloat16", **options)
    found = deviations(path, units("moe-tiny", 8).truth)
    assert 1e-4 < max(family.error for family in found.values()) < 0.03, found
    accumulated = read_record(path).header.environment["accumulate_dtype"]
    assert accumulated == ("bfloat16" if "grad_reduce_in_fp32" in options else "float32")


def test_broken_release_leaves_out_nearly_all_of_the_auxiliary_loss(run: Run, units: Any, deviations: Any) -> None:
    layout = Layout(dp=4, ep=2, accum=2)
    path = run(BROKEN, "megatron-ddp", "moe-tiny", str(layout), **BY_TOKEN)
    basis = units("moe-tiny", layout.units)
    tokens = 512
    """Of all units together."""

    def expected(name: str) -> NDArray[np.float64]:
        main = basis.coefficients @ (basis.loss[name] - basis.auxiliary[name])
        found: NDArray[np.float64] = main + layout.dp / tokens * (basis.coefficients @ basis.auxiliary[name])
        return found

    found = deviations(path, expected)
    assert max(family.error for family in found.values()) < ROUNDING, found
    assert deviations(path, basis.truth)["router"].error > 0.1


@pytest.mark.parametrize(
    ("framework", "layout", "options"),
    [
        (NEWEST, "dp4.ep2.accum2", SHARDED),
        (NEWER, "dp4.ep2.accum2", {}),
        (NEWER, "dp4.ep2.accum2", SHARDED | OVERLAPPED),
        (NEWER, "dp4.replicate2.accum2", SHARDED),
        (OLDER, "dp4.ep4", SHARDED),
    ],
)
def test_pieces_are_what_the_optimizer_takes_for_the_gradient(
    run: Run, framework: str, layout: str, options: Options
) -> None:
    path = run(framework, "megatron-ddp", "moe-tiny", layout, function="megatron_core_ranks:compare_ways", **options)
    ranks = json.loads(path.read_text())
    assert len(ranks) == 4
    differences = [difference for rank in ranks for difference in rank.values()]
    assert 0 < max(differences) < ROUNDING


@pytest.mark.parametrize("options", [{}, OVERLAPPED, SHARDED | OVERLAPPED])
def test_a_second_window_starts_from_nothing(run: Run, options: Options) -> None:
    path = run(
        NEWER, "megatron-ddp", "moe-tiny", "dp4.ep2.accum2", function="megatron_core_ranks:next_window", **options
    )
    ranks = json.loads(path.read_text())
    assert len({name for rank in ranks for name in rank}) == 83
    assert max(difference for rank in ranks for difference in rank.values()) < ROUNDING


@pytest.mark.parametrize("options", [{}, SHARDED])
def test_interference_reaches_the_reduced_gradient(run: Run, units: Any, deviations: Any, options: Options) -> None:
    layout = Layout(dp=4, accum=2)
    path = run(NEWER, "megatron-ddp", "moe-tiny", str(layout), function="megatron_core_ranks:disturbed", **options)
    basis = units("moe-tiny", layout.units)

    def expected(name: str) -> NDArray[np.float64]:
        tripled = np.ones(layout.units)
        if ".experts." in name or "norm" in name:
            tripled[layout.unit(1, 0)] = 3
        found: NDArray[np.float64] = basis.coefficients * tripled @ basis.loss[name]
        return found

    found = deviations(path, expected)
    assert max(family.error for family in found.values()) < ROUNDING, found
    assert deviations(path, basis.truth)["norm"].error > 0.01


def test_the_record_names_what_stood_in(run: Run) -> None:
    found = read_record(run(NEWEST, "megatron-ddp", "moe-tiny", "dp2.ep2", **SHARDED)).header
    assert (found.framework.name, found.framework.version) == ("megatron-core", "0.19.2")
    assert found.environment["stand_in"]["parts"] == ["collectives", "device", "names", "splits", "streams"]
    assert found.environment["placeholders"] == ["triton"]
    assert found.environment["moe"] == "megatron-core"
    assert "torch SGD" in found.environment["optimizer"]


def test_what_cannot_run_is_said(run: Run) -> None:
    with pytest.raises(UsageError, match=r"0\.15\.3 has no reduce_scatter_with_fp32_accumulation"):
        run(OLDER, "megatron-ddp", "moe-tiny", "dp2", **SHARDED, **ACCURATE)
    with pytest.raises(UsageError, match="terms of the loss cannot be changed"):
        run(OLDER, "megatron-ddp", "moe-tiny", "dp2", function="megatron_core_ranks:with_other_terms")
