"""Weights that were put in come out as the law that they follow, in float32 and bfloat16, whatever the owners."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from gradassay.goldens.assay.compare import assay_record
from gradassay.goldens.assay.result import Verdict
from gradassay.goldens.layout import Layout

FAMILIES = {
    "dense": [(24, 16), (48,), (64, 64)],
    "expert": [(40, 36)] * 4 + [(36, 40)] * 4,
    "norm": [(16,)],
    "router": [(12, 32)],
    "bias": [(4,)],
}
Case = tuple[str, str, Any, str, str, str]


def by_micro(*weights: float, dp: int = 4) -> np.ndarray:
    return np.tile(np.array(weights, dtype=np.float64), (dp, 1))


def by_owner(weight: Callable[[int, int, int], float], accum: int, dp: int = 4) -> np.ndarray:
    """[owner, dp, accum] from owner, rank and micro step."""
    return np.array([[[weight(o, r, m) for m in range(accum)] for r in range(dp)] for o in range(dp)], dtype=np.float64)


# layout, families ("all" for every one), weights, how owners are known, pattern, right-hand side
CASES: list[Case] = [
    ("dp4.ep2.accum3", "expert", 2.0, "", "uniform", "ep"),
    ("dp4.ep4.accum3", "expert", 4.0, "shards", "uniform", "ep"),
    ("dp4.accum3", "all", 1 / 3, "copies", "uniform", "1/accum"),
    ("dp4.accum3", "all", 0.25, "", "uniform", "1/dp"),
    ("dp4.accum3", "all", 2.0**-16, "", "uniform", "2**-16"),
    ("dp4.accum3", "all", 6144.0, "", "uniform", "tokens"),
    ("dp4.accum3", "norm", -1.0, "", "sign", "-1"),
    ("dp4.accum3", "all", by_micro(1 / 4, 1, 4), "shards", "geometric", "dp**(m-M+2)"),
    ("dp4.ep4.accum3", "expert", by_micro(4, 2, 1), "", "geometric", "2**(M-1-m)"),
    ("dp4.accum3", "dense", by_micro(3, 2, 1), "", "linear", "(M-m)"),
    ("dp4.accum3", "all", by_micro(0, 0, 1), "", "last-only", "[m = M-1]"),
    ("dp4.accum3", "all", by_micro(0, 0, 3), "", "last-only", "accum*[m = M-1]"),
    ("dp4.accum3", "all", by_micro(1, 0, 0), "", "first-only", "[m = 0]"),
    ("dp4.accum4", "all", by_micro(1, 0, 0, 1), "", "micro-subset", "[m in {0,3}]"),
    ("dp4.ep2.accum2", "expert", np.repeat([[1.0], [1], [0], [0]], 2, axis=1), "", "rank-subset", "[r in {0,1}]"),
    (
        "dp5.accum3", "dense", np.repeat([[1.0], [2], [1], [1], [1]], 3, axis=1), "", "rank-subset",
        "(2 if r in {1} else 1)",
    ),
    ("dp4.accum2", "all", by_owner(lambda o, r, m: 4 * (r == o), 2), "shards", "unreduced", "dp*[r = owner]"),
    ("dp4.accum2", "all", by_owner(lambda o, r, m: 4 * (r == o), 2), "copies", "unreduced", "dp*[r = owner]"),
    (
        "dp4.ep2.accum2", "expert", by_owner(lambda o, r, m: 2 * (r // 2 == o // 2), 2),
        "copies", "unreduced", "edp*[r in owner's ep group]",
    ),
    (
        "dp4.accum3", "all", by_owner(lambda o, r, m: 4 * (r == o and m == 2), 3),
        "shards", "unreduced", "dp*[m = M-1]*[r = owner]",
    ),
    (
        "dp4.accum3", "all", by_owner(lambda o, r, m: 1 if m == 0 else 4 * (r == o), 3),
        "copies", "partly-unreduced", "(1 if m = 0 else dp*[r = owner])",
    ),
    ("dp4.accum2", "all", by_owner(lambda o, r, m: 1 + (r == o), 2), "shards", "own-again", "(1 + [r = owner])"),
    ("dp4.accum3", "all", by_owner(lambda o, r, m: 1 + 4 * (r == o), 3), "shards", "own-again", "(1 + dp*[r = owner])"),
    ("dp2", "dense", by_owner(lambda o, r, m: 1 + (r == o), 1, dp=2), "copies", "own-again", "(1 + [r = owner])"),
    (
        "dp4.accum3", "all",
        by_owner(lambda o, r, m: 4.0 ** (m - 2) if r == o else sum(4.0**-j for j in range(3 - m)), 3),
        "shards", "reduced-again", "(dp**(m-M+1) if r = owner else 1 + ... + dp**(m-M+1))",
    ),
    (
        "dp3.accum2", "all", by_owner(lambda o, r, m: 1 / 3 + (r != o), 2, dp=3),
        "shards", "reduced-again", "(1/dp if r = owner else 1 + 1/dp)",
    ),
    (
        "dp5.accum3", "dense", by_owner(lambda o, r, m: 1 + (o == 2), 3, dp=5),
        "copies", "rank-disagreement", "2 if owner in {2} else 1",
    ),
]  # fmt: skip


@pytest.fixture(scope="module")
def toy(make_toy: Any) -> Any:
    return make_toy(families=FAMILIES, units=16)


@pytest.fixture(scope="module", params=["float32", "bfloat16"])
def golden(request: Any, toy: Any, make_golden: Any) -> Any:
    return make_golden(toy, dtype=request.param)


def assayed(golden: Any, toy: Any, make_record: Any, layout: str, weights: Any, owners: str, **more: Any) -> Any:
    record = make_record(
        toy,
        layout=Layout.parse(layout),
        weights=weights,
        dtype=golden.header.dtype.parameter,
        sharded=owners == "shards",
        copies=owners == "copies",
        **more,
    )
    return assay_record(record, golden)


@pytest.mark.parametrize("case", CASES, ids=[f"{case[4]}:{case[5]}:{case[3]}" for case in CASES])
def test_law(case: Case, golden: Any, toy: Any, make_record: Any) -> None:
    layout, families, weights, owners, pattern, formula = case
    chosen = list(FAMILIES) if families == "all" else [families]
    assay = assayed(golden, toy, make_record, layout, dict.fromkeys(chosen, weights), owners)
    assert assay.verdict is Verdict.DIVERGE
    (finding,) = assay.findings
    assert set(finding.families) == set(chosen)
    assert finding.count == finding.of == sum(len(FAMILIES[family]) for family in chosen)
    assert finding.law.pattern == pattern
    law = finding.law.formula.removeprefix("w[r,m] = ")
    assert formula in (law, *finding.law.ties)
    assert finding.law.confidence > 0.9
    untouched = [p for p in assay.parameters if p.family not in chosen]
    assert all(parameter.verdict is Verdict.AGREE for parameter in untouched)


@pytest.mark.parametrize("owners", ["", "shards", "copies"])
@pytest.mark.parametrize("layout", ["dp1", "dp1.accum4", "dp4", "dp4.ep2.accum3", "dp6.ep3.accum2"])
def test_healthy_runs_agree(layout: str, owners: str, golden: Any, toy: Any, make_record: Any) -> None:
    for seed in range(1, 6):
        assay = assayed(golden, toy, make_record, layout, {}, owners, seed=seed)
        assert assay.verdict is Verdict.AGREE
        assert assay.findings == ()


def test_small_factors_are_flagged_and_smaller_ones_are_not(golden: Any, toy: Any, make_record: Any) -> None:
    seen = 1.00001 if golden.header.dtype.parameter == "float32" else 1.01
    assay = assayed(golden, toy, make_record, "dp4.accum3", {"expert": seen}, "")
    (finding,) = assay.findings
    assert finding.law.value == pytest.approx(seen, rel=(seen - 1) / 20)
    assert assay.power["expert"] <= seen
    unseen = 1 + (assay.power["expert"] - 1) / 30
    assert assayed(golden, toy, make_record, "dp4.accum3", {"expert": unseen}, "").verdict is Verdict.AGREE


def test_two_laws_in_one_run_are_told_apart(golden: Any, toy: Any, make_record: Any) -> None:
    weights = {"expert.0.weight": 2.0, "expert.1.weight": 2.0, "dense.0.weight": 0.25}
    assay = assayed(golden, toy, make_record, "dp4.ep2.accum3", weights, "")
    laws = {finding.law.scale: set(finding.parameters) for finding in assay.findings}
    assert laws == {"ep": {"expert.0.weight", "expert.1.weight"}, "1/dp": {"dense.0.weight"}}


def test_what_is_the_same_by_definition_is_no_tie(golden: Any, toy: Any, make_record: Any) -> None:
    (finding,) = assayed(golden, toy, make_record, "dp4.ep2.accum3", {"expert": 2.0}, "").findings
    assert finding.law.scale == "ep"
    assert {"edp", "dp/2", "2"} <= set(finding.law.ties)
    assert "dp/edp" not in finding.law.ties
    (finding,) = assayed(golden, toy, make_record, "dp6.ep2.accum2", {"expert": 3.0}, "").findings
    assert finding.law.scale == "edp"
    assert "dp/ep" not in finding.law.ties


def test_weights_are_shown_by_rank_and_micro_step(golden: Any, toy: Any, make_record: Any) -> None:
    (finding,) = assayed(golden, toy, make_record, "dp4.accum3", {"dense": by_micro(1 / 4, 1, 4)}, "").findings
    assert np.array(finding.weights).shape == (4, 3)
    assert np.allclose(np.array(finding.weights), by_micro(1 / 4, 1, 4), atol=0.05)


def test_weights_without_a_law_are_unexplained_but_shown(golden: Any, toy: Any, make_record: Any) -> None:
    weights = np.random.default_rng(3).uniform(0.5, 2, (4, 3))
    assay = assayed(golden, toy, make_record, "dp4.accum3", dict.fromkeys(FAMILIES, weights), "")
    (finding,) = assay.findings
    assert finding.law.pattern == "unexplained"
    assert np.allclose(np.array(finding.weights), weights, atol=0.05)


def test_known_faults_need_the_right_families(golden: Any, toy: Any, make_record: Any) -> None:
    expert = assayed(golden, toy, make_record, "dp4.ep2.accum3", {"expert": 2.0}, "", framework="deepspeed")
    dense = assayed(golden, toy, make_record, "dp4.ep2.accum3", {"dense": 2.0}, "", framework="deepspeed")
    assert expert.findings[0].known_faults[0] == "deepspeed-6545"
    assert "deepspeed-6545" not in dense.findings[0].known_faults
