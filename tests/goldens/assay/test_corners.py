"""Cases that deserve thought: near-collinear units, cancelled sums, copies, silent experts, tiny tensors, wrong owners."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load, save

from foreign import Array, Sizes, Stranger
from foreign_faults import flat
from gradassay.goldens.assay.compare import assay_record
from gradassay.goldens.assay.result import Assay, Finding, Verdict
from gradassay.goldens.errors import Exit
from gradassay.goldens.golden import read_golden
from gradassay.goldens.record import read_record

Assayed = Callable[..., Assay]
LAYOUT = Sizes(4, ep=2, accum=3)


def named(*sizes: tuple[str, str, list[int]]) -> list[dict[str, Any]]:
    return [{"name": name, "family": family, "shape": shape} for name, family, shape in sizes]


def problem(**how: Any) -> Stranger:
    parameters = named(
        ("layers.0.attention", "dense", [40, 40]),
        ("layers.0.mlp", "dense", [48, 32]),
        *((f"layers.0.experts.{expert}", "expert", [40, 36]) for expert in range(4)),
        ("layers.0.norm", "norm", [64]),
    )
    return Stranger(3, **{"dtype": "float32", "objective": "unit-mean", "common": 0.5, "parameters": parameters} | how)


@pytest.fixture
def assayed(tmp_path: Path) -> Assayed:
    def assay(
        stranger: Stranger,
        sizes: Sizes = LAYOUT,
        weights: Mapping[str, Any] | None = None,
        golden: bytes | None = None,
        edit: Callable[[dict[str, Any]], None] | None = None,
        **how: Any,
    ) -> Assay:
        content = stranger.record(sizes, weights, **how)
        if edit is not None:
            arrays = {name: values.copy() for name, values in load(content).items()}
            edit(arrays)
            length = int.from_bytes(content[:8], "little")
            content = save(arrays, json.loads(content[8 : 8 + length])["__metadata__"])
        (tmp_path / "golden").write_bytes(golden or stranger.golden())
        (tmp_path / "record").write_bytes(content)
        return assay_record(read_record(tmp_path / "record"), read_golden(tmp_path / "golden"))

    return assay


def law(finding: Finding) -> str:
    return finding.law.formula.removeprefix("w[r,m] = ")


def decaying(sizes: Sizes) -> Array:
    return flat(sizes) * float(sizes.dp) ** (np.arange(sizes.accum) - sizes.accum + 2)


@pytest.mark.parametrize("common", [10.0, 100.0, 1000.0])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_nearly_collinear_units(common: float, dtype: str, assayed: Assayed) -> None:
    stranger = problem(common=common, dtype=dtype)
    assert assayed(stranger).verdict is Verdict.AGREE
    (finding,) = assayed(stranger, LAYOUT, dict.fromkeys(stranger.names(), decaying(LAYOUT))).findings
    assert law(finding) == "dp**(m-M+2)"
    if dtype == "bfloat16" and common == 1000:
        assert (finding.weights_stderr or 0) > 0.5, "what can hardly be seen is said to be uncertain"


def cancel(stranger: Stranger, name: str, left: float, units: int) -> None:
    """Leaves so much of the sum of the units' gradients, and the units themselves almost as they are."""
    own = stranger.gradients[1, "", name]
    own[:units] -= own[:units].mean(axis=0) * (1 - left)


def test_a_sum_that_nearly_cancels_may_round_more(assayed: Assayed) -> None:
    """Rounding happens to units; relative to what is left of them it is large, and no fault."""
    stranger, name = problem(), "layers.0.attention"
    cancel(stranger, name, 1e-2, LAYOUT.units)

    def rounded_units(values: Array) -> Array:
        own = stranger.own(name)[: LAYOUT.units]
        return values + 1e-7 * (stranger.random.standard_normal(own.shape) * own).sum(axis=0) / LAYOUT.units

    assay = assayed(stranger, after={name: rounded_units})
    assert assay.verdict is Verdict.AGREE
    verdicts = {parameter.name: parameter for parameter in assay.parameters}
    assert (verdicts[name].tolerance or 0) > 10 * (verdicts["layers.0.mlp"].tolerance or 0)
    assert assayed(stranger, weights={name: flat(LAYOUT, 1.01)}).verdict is Verdict.DIVERGE


def test_a_sum_that_cancels_is_inconclusive(assayed: Assayed) -> None:
    stranger = problem()
    cancel(stranger, "layers.0.attention", 0.0, LAYOUT.units)
    assay = assayed(stranger)
    assert assay.exit is Exit.INCONCLUSIVE
    assert "layers.0.attention" in assay.sentence
    weights = {"layers.0.attention": flat(LAYOUT) * np.arange(3)}
    assert assayed(stranger, weights=weights).verdict is Verdict.DIVERGE


def test_one_copy_of_one_parameter(assayed: Assayed) -> None:
    weights = np.ones((4, 4, 3))
    weights[2] = 1.7
    for average in (False, True):
        stranger = problem()
        assay = assayed(stranger, weights={"layers.0.mlp": weights}, owners="copies", average=average)
        (finding,) = assay.findings
        assert finding.parameters == ("layers.0.mlp",)
        assert law(finding) == "1.7 if owner in {2} else 1"
        assert finding.owners is not None
        assert [np.nanmean(np.array(owner.weights)).round(3) for owner in finding.owners] == [1, 1, 1.7, 1]


def test_one_shard_of_one_parameter(assayed: Assayed) -> None:
    weights = np.ones((4, 4, 3))
    weights[3] = 0.7
    (finding,) = assayed(problem(), weights={"layers.0.mlp": weights}, owners="shards").findings
    assert law(finding) == "0.7 if owner in {3} else 1"


def test_copies_that_differ_without_a_law_name_the_rank(assayed: Assayed) -> None:
    stranger = problem()

    def garbled(values: Array) -> Array:
        values = values.copy()
        values[1] = stranger.random.standard_normal(values.shape[1])
        return values

    (finding,) = assayed(stranger, after={"layers.0.mlp": garbled}, owners="copies").findings
    assert finding.law.pattern == "rank-disagreement"
    assert "rank 1 " in finding.law.formula


@pytest.mark.parametrize("owners", ["shards", "copies"])
def test_experts_that_one_rank_alone_holds(owners: str, assayed: Assayed) -> None:
    """With ep = dp every expert has one owner: that each keeps its own units is one law, not one subset an expert."""
    sizes, stranger = Sizes(4, ep=4, accum=2), problem()
    weights = 4 * sizes.groups("rank")[:, :, None] * np.ones(sizes.accum)
    (finding,) = assayed(stranger, sizes, dict.fromkeys(stranger.names("expert"), weights), owners=owners).findings
    assert law(finding) == "dp*[r = owner]"
    assert finding.count == 4


def test_experts_that_a_law_leaves_nothing_of(assayed: Assayed) -> None:
    """An expert without tokens in the last micro-batch is zero under `[m = M-1]`, and not a fault of its own."""
    stranger = problem()
    stranger.gradients[1, "", "layers.0.experts.2"][8:12] = 0
    weights = flat(LAYOUT) * (np.arange(3) == 2)
    (finding,) = assayed(stranger, weights=dict.fromkeys(stranger.names("expert"), weights)).findings
    assert law(finding) == "[m = M-1]"
    assert finding.count == finding.of == 4


def test_zero_beside_a_law_that_leaves_something_is_a_fault_of_its_own(assayed: Assayed) -> None:
    """Negative control of the above."""
    weights: dict[str, Array] = dict.fromkeys(problem().names("expert"), flat(LAYOUT, 2.0))
    weights["layers.0.experts.2"] = flat(LAYOUT, 0.0)
    findings = assayed(problem(), weights=weights).findings
    assert {finding.law.pattern for finding in findings} == {"uniform", "zero"}


@pytest.mark.parametrize(("factor", "text"), [(2.0, "replicate*"), (1.0, "")])
def test_two_ranks_that_own_the_same_shard(factor: float, text: str, assayed: Assayed) -> None:
    sizes, stranger = Sizes(4, replicate=2, accum=3), problem()
    weights = factor * sizes.groups("replica")[:, :, None] * np.ones(sizes.accum)
    (finding,) = assayed(stranger, sizes, dict.fromkeys(stranger.names("dense"), weights), owners="copies").findings
    assert law(finding) == f"{text}[r in owner's replica]"


def test_tiny_tensors_are_no_evidence(assayed: Assayed) -> None:
    """One number fits any law: beside parameters that no law explains it is not said to follow one."""
    parameters = named(
        ("layers.0.w", "dense", [40, 40]), ("layers.0.bias", "bias", [1]), ("layers.1.bias", "bias", [2])
    )
    stranger = problem(parameters=parameters)
    random = np.random.default_rng(0).uniform(0.3, 3, (4, 3))
    findings = assayed(stranger, weights=dict.fromkeys(stranger.names(), random)).findings
    assert {finding.law.pattern for finding in findings} == {"unexplained"}


def test_tiny_tensors_join_the_law_of_the_others(assayed: Assayed) -> None:
    parameters = named(
        ("layers.0.w", "dense", [40, 40]), ("layers.0.bias", "bias", [1]), ("layers.1.bias", "bias", [2])
    )
    stranger = problem(parameters=parameters)
    (finding,) = assayed(stranger, weights=dict.fromkeys(stranger.names(), decaying(LAYOUT))).findings
    assert law(finding) == "dp**(m-M+2)"
    assert finding.count == 3


def test_two_laws_in_one_family(assayed: Assayed) -> None:
    stranger = problem()
    experts = stranger.names("expert")
    weights = dict.fromkeys(experts[:2], flat(LAYOUT, 2.0)) | dict.fromkeys(experts[2:], decaying(LAYOUT))
    findings = assayed(stranger, weights=weights).findings
    assert {law(finding) for finding in findings} == {"ep", "dp**(m-M+2)"}
    assert all((finding.count, finding.of) == (2, 4) for finding in findings)


def test_a_mean_over_some_ranks_is_named_by_their_number(assayed: Assayed) -> None:
    weights = flat(LAYOUT, 0.0)
    weights[[0, 1, 3]] = 4 / 3
    stranger = problem()
    (finding,) = assayed(stranger, weights=dict.fromkeys(stranger.names(), weights)).findings
    assert law(finding) == "dp/3*[r in {0,1,3}]"


def test_stages_of_a_pipeline(assayed: Assayed) -> None:
    sizes, stranger = Sizes(4, pp=3, accum=3), problem()
    for place, parameter in enumerate(stranger.parameters):
        parameter["stage"] = place % 3
    weights = {item["name"]: flat(sizes, 2.0 ** (item["stage"] - 2)) for item in stranger.parameters}
    (finding,) = assayed(stranger, sizes, weights).findings
    assert law(finding) == "2**(stage-pp+1)"
    assert finding.count == sum(item["stage"] != 2 for item in stranger.parameters)


def test_experts_with_equal_truths_are_not_called_permuted(assayed: Assayed) -> None:
    stranger = problem()
    stranger.gradients[1, "", "layers.0.experts.1"] = stranger.gradients[1, "", "layers.0.experts.0"]
    first, second = {"layers.0.experts.0": "layers.0.experts.1"}, {"layers.0.experts.1": "layers.0.experts.0"}
    assert assayed(stranger, source=first | second).verdict is Verdict.AGREE


def test_a_sketch_of_nothing_beside_a_norm(assayed: Assayed) -> None:
    def edit(arrays: dict[str, Any]) -> None:
        arrays["reduced.1.sketch"][0] = 0

    assay = assayed(problem(), edit=edit)
    assert assay.verdict is Verdict.DIVERGE
    assert "norm" in assay.parameters[0].note


@pytest.mark.parametrize("value", [np.nan, np.inf, 1e200])
@pytest.mark.parametrize("array", ["reduced.1.sketch", "reduced.1.rank_sketch", "reduced.1.norm2"])
def test_what_is_not_finite_never_agrees(array: str, value: float, assayed: Assayed) -> None:
    """Wherever it stands, a rank's copy included; norms are squares, and may be large."""

    def edit(arrays: dict[str, Any]) -> None:
        arrays[array][..., -1] = value

    assay = assayed(problem(), owners="copies", float64=True, edit=edit)
    if (array, value) == ("reduced.1.norm2", 1e200):
        assert assay.verdict is Verdict.AGREE
    else:
        assert {finding.law.pattern for finding in assay.findings} == {"non-finite"}


def test_a_family_without_a_floor_is_inconclusive(assayed: Assayed) -> None:
    stranger = problem()
    floors = {
        "dense": {"q50": 1e-7, "q999": 4e-7, "samples": 240},
        "expert": {"q50": 1e-7, "q999": 4e-7, "samples": 240},
    }
    assay = assayed(stranger, golden=stranger.golden(noise=floors))
    assert assay.exit is Exit.INCONCLUSIVE
    assert "norm" in assay.sentence


def test_edp_is_no_tie_without_expert_parallelism(assayed: Assayed) -> None:
    """edp is dp by definition there."""
    sizes, stranger = Sizes(4, accum=3), problem()
    (finding,) = assayed(stranger, sizes, dict.fromkeys(stranger.names(), decaying(sizes))).findings
    assert not [tie for tie in finding.law.ties if "edp" in tie]
