from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from gradassay.goldens.errors import UsageError
from gradassay.goldens.layout import Layout
from gradassay.goldens.record import read_record

pytestmark = [pytest.mark.dist, pytest.mark.frameworks]

STRATEGY = "megatron-fsdp"
NEWEST, FIXED, BROKEN = (f"megatron-fsdp=={version}" for version in ("0.6.1", "0.3.0", "0.2.3"))
"""The newest release, the first after the fix of Megatron-LM 3023 and the last before it."""

ROUNDING = {"float32": 1e-6, "bfloat16": 0.02}
UNFUSED = {"gradient_reduce_div_fusion": "false"}
LAST = {"sync_model_each_microbatch": "false"}

Run = Callable[..., Path]


@dataclass(frozen=True)
class Case:
    """A cell and the weight of each of its micro steps. families: those that have it, () for all; the others agree."""

    release: str
    layout: str
    weights: tuple[float, ...]
    options: Mapping[str, str] = field(default_factory=dict)
    problem: str = "dense-tiny"
    dtype: str = "float32"
    families: tuple[str, ...] = ()

    def __str__(self) -> str:
        options = " ".join(f"{key}={value}" for key, value in self.options.items())
        return f"{self.release} {self.problem} {self.layout} {self.dtype} {options}"


def _check(case: Case, run: Run, units: Any, deviations: Any) -> Path:
    layout = Layout.parse(case.layout)
    path = run(case.release, STRATEGY, case.problem, case.layout, dtype=case.dtype, **case.options)
    basis = units(case.problem, layout.units)
    families = {parameter.name: parameter.family for parameter in read_record(path).header.parameters}

    def expected(name: str) -> NDArray[np.float64]:
        affected = not case.families or families[name] in case.families
        weights = case.weights if affected else (1.0,) * layout.accum
        found: NDArray[np.float64] = basis.coefficients * np.repeat(weights, layout.dp) @ basis.loss[name]
        return found

    found = deviations(path, expected)
    assert max(family.error for family in found.values()) < ROUNDING[case.dtype], found
    if set(case.weights) != {1.0}:
        healthy = deviations(path, basis.truth)
        changed = case.families or tuple(healthy)
        assert all(healthy[family].error > 0.1 for family in changed), healthy
    return path


@pytest.mark.parametrize(
    "case",
    [
        Case(BROKEN, "dp4.accum3", (1 / 4, 1, 4), UNFUSED),
        Case(BROKEN, "dp2", (2,), UNFUSED),
        Case(BROKEN, "dp2.accum3", (1 / 2, 1, 2), dtype="bfloat16"),
        Case(FIXED, "dp4.accum3", (1, 1, 1), UNFUSED),
        Case(FIXED, "dp2.accum3", (1, 1, 1), dtype="bfloat16"),
    ],
    ids=str,
)
def test_seed(case: Case, run: Run, units: Any, deviations: Any) -> None:
    header = read_record(_check(case, run, units, deviations)).header
    assert f"{header.framework.name}=={header.framework.version}" == case.release


@pytest.mark.slow
@pytest.mark.parametrize(
    "case",
    [
        *(
            Case(BROKEN, "dp2.accum4", (1 / 4, 1 / 2, 1, 2), {"zero_dp_strategy": each, **UNFUSED})
            for each in ["optim_grads"]
        ),
        *(
            Case(BROKEN, "dp2.accum3", (1, 1, 1), {"zero_dp_strategy": each, **UNFUSED})
            for each in ("optim", "no_shard")
        ),
        Case(BROKEN, "dp2.accum3", (1, 1, 1)),
        Case(BROKEN, "dp2.accum3", (1, 1, 1), {"grad_reduce_in_fp32": "true"}, dtype="bfloat16"),
        Case(BROKEN, "dp4.replicate2.accum3", (1 / 4, 1, 4), {**LAST, **UNFUSED}),
        Case(BROKEN, "dp2.accum2", (1, 1), problem="moe-tiny"),
        Case(BROKEN, "dp2.accum3", (1, 1, 1), problem="ragged-tiny"),
        Case(FIXED, "dp4.replicate2.accum3", (1, 1, 1), LAST),
        *(
            Case(NEWEST, "dp2.accum4", (1, 1, 1, 1), {"zero_dp_strategy": each, **LAST, **UNFUSED})
            for each in ("optim_grads_params", "optim_grads", "optim", "no_shard")
        ),
        Case(NEWEST, "dp2.accum3", (1, 1, 1), {"average_in_collective": "true"}),
        Case(NEWEST, "dp2.accum3", (1, 1, 1), dtype="bfloat16"),
        Case(NEWEST, "dp2.accum2", (1, 1), {"main_grads_dtype": "float32"}, dtype="bfloat16"),
        Case(NEWEST, "dp4.replicate2.accum3", (1, 1, 1), LAST),
        Case(NEWEST, "dp4.ep2.accum2", (1, 1), problem="moe-tiny"),
        Case(NEWEST, "dp2.accum3", (1, 1, 1), problem="ragged-tiny"),
    ],
    ids=str,
)
def test_releases_and_options(case: Case, run: Run, units: Any, deviations: Any) -> None:
    _check(case, run, units, deviations)


@pytest.mark.slow
@pytest.mark.parametrize(
    "case",
    [
        # The report Megatron-LM 6660: a shard group of one rank.
        Case(FIXED, "dp1.accum3", (8, 4, 2)),
        Case(FIXED, "dp2.ep2.accum3", (2, 2, 2), {**LAST, **UNFUSED}, problem="moe-tiny", families=("expert",)),
        Case(NEWEST, "dp1.accum3", (1, 1, 1)),
        # What came of it: the buffer is scaled again with every micro-batch.
        Case(
            NEWEST, "dp2.ep2.accum3", (1 / 4, 1 / 2, 1), {**LAST, **UNFUSED}, problem="moe-tiny", families=("expert",)
        ),
        Case(NEWEST, "dp4.replicate4.accum2", (1 / 4, 1), LAST),
        # Replicas of shards, reduced after every micro-batch, which is the default.
        Case(NEWEST, "dp4.replicate2.accum3", (4, 2, 1)),
        # An outer axis that shards: nothing is divided.
        Case(NEWEST, "dp4.replicate2.accum2", (4, 4), {"outer_dp_sharding_strategy": "optim", **LAST}),
        Case(FIXED, "dp4.replicate2.accum2", (1, 1), {"outer_dp_sharding_strategy": "optim", **LAST}),
        # Averages over the expert group instead of all ranks.
        Case(NEWEST, "dp4.ep2", (2,), {"average_in_collective": "true"}, problem="moe-tiny", families=("expert",)),
    ],
    ids=str,
)
def test_live_faults(case: Case, run: Run, units: Any, deviations: Any) -> None:
    _check(case, run, units, deviations)


@pytest.mark.slow
def test_first_fixed_release_counts_owners_twice_with_optim(run: Run, units: Any, deviations: Any) -> None:
    """Every rank adds the mean to what it accumulated itself, which its own shard keeps: w[r,m] = 1 + [r is the owner]."""
    options = {"zero_dp_strategy": "optim", **LAST, **UNFUSED}
    found = deviations(run(FIXED, STRATEGY, "dense-tiny", "dp2", **options), units("dense-tiny", 2).truth)
    assert min(family.error for family in found.values()) > 0.4, found
    assert max(family.error for family in found.values()) < 1.2, found


@pytest.mark.parametrize(
    ("release", "layout", "strategy"),
    [
        (BROKEN, "dp2.accum2", "optim_grads_params"),
        (NEWEST, "dp4", "optim_grads_params"),
        pytest.param(NEWEST, "dp4", "optim", marks=pytest.mark.slow),
        pytest.param(FIXED, "dp2.accum2", "optim_grads", marks=pytest.mark.slow),
    ],
)
def test_pieces_are_what_the_optimizer_sees(run: Run, release: str, layout: str, strategy: str) -> None:
    function = "megatron_fsdp_ranks:compare_ways"
    path = run(release, STRATEGY, "dense-tiny", layout, function=function, zero_dp_strategy=strategy)
    differences = [difference for rank in json.loads(path.read_text()) for difference in rank.values()]
    assert differences
    assert 0 < max(differences) < ROUNDING["float32"]


def test_interference_reaches_the_reduced_gradient(run: Run, units: Any, deviations: Any) -> None:
    layout = Layout(dp=2, accum=2)
    path = run(NEWEST, STRATEGY, "dense-tiny", str(layout), function="megatron_fsdp_ranks:disturbed")
    basis = units("dense-tiny", layout.units)

    def expected(name: str) -> NDArray[np.float64]:
        tripled = np.ones(layout.units)
        if "norm" in name:
            tripled[layout.unit(1, 0)] = 3
        found: NDArray[np.float64] = basis.coefficients * tripled @ basis.loss[name]
        return found

    disturbed = deviations(path, expected)
    assert max(family.error for family in disturbed.values()) < ROUNDING["float32"], disturbed
    assert deviations(path, basis.truth)["norm"].error > 0.1


def test_record_names_the_stand_in_and_the_convention(run: Run) -> None:
    header = read_record(run(NEWEST, STRATEGY, "dense-tiny", "dp2", calculate_per_token_loss="true")).header
    assert header.convention == {"all": "dp"}
    assert header.environment["reduce_dtype"] == "float32"
    stand_in = header.environment["stand_in"]
    assert stand_in["parts"] == ["collectives", "device", "streams"]
    assert "races between streams" in stand_in["cannot_show"]


@pytest.mark.parametrize(
    ("release", "problem", "layout", "options", "words"),
    [
        (BROKEN, "moe-tiny", "dp2.ep2", {}, "0.2.3 has no expert parallelism"),
        (BROKEN, "dense-tiny", "dp2", {"main_grads_dtype": "float32"}, "0.2.3 has no option 'main_grads_dtype'"),
        (BROKEN, "dense-tiny", "dp2", {"average_in_collective": "true"}, "0.2.3 cannot average in the collective"),
        (NEWEST, "dense-tiny", "dp2", {"grad_reduce_in_fp32": "true"}, "0.6.1 has no option 'grad_reduce_in_fp32'"),
        (NEWEST, "dense-tiny", "dp2.replicate2", {"zero_dp_strategy": "no_shard"}, "cannot update with"),
        (NEWEST, "dense-tiny", "dp2", {"outer_dp_sharding_strategy": "optim"}, "needs an outer axis"),
        (NEWEST, "dense-tiny", "dp2", {"overlap_grad_reduce": "false"}, "has no overlap_grad_reduce = false"),
    ],
)
def test_what_a_release_lacks_is_said(
    run: Run, release: str, problem: str, layout: str, options: dict[str, str], words: str
) -> None:
    with pytest.raises(UsageError, match=words):
        run(release, STRATEGY, problem, layout, **options)
