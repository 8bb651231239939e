"""What is missing, unseen, unmatched or broken is never a pass."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from gradassay.goldens.assay.compare import assay_record
from gradassay.goldens.assay.records import assay_records
from gradassay.goldens.assay.result import Verdict
from gradassay.goldens.errors import Exit, UsageError
from gradassay.goldens.header import DtypeProfile, NoiseFloor, Problem, StageStep
from gradassay.goldens.layout import Layout
from gradassay.goldens.record import Capture, Record

LAYOUT = Layout(dp=4, ep=2, accum=3)


@pytest.fixture(scope="module")
def toy(make_toy: Any) -> Any:
    families = {"dense": [(24, 16), (48,)], "expert": [(40, 36)] * 4, "norm": [(16,)]}
    return make_toy(families=families, units=12, idle={"expert.0.weight": [0, 1, 2, 3], "expert.1.weight": [0]})


@pytest.fixture(scope="module")
def golden(toy: Any, make_golden: Any) -> Any:
    return make_golden(toy)


@pytest.fixture
def record(toy: Any, make_record: Any) -> Any:
    return make_record(toy, layout=LAYOUT)


def with_header(record: Record, **changes: Any) -> Record:
    return replace(record, header=replace(record.header, **changes))


def with_capture(record: Record, **changes: Any) -> Record:
    return replace(record, captures={"reduced.1": replace(record.captures["reduced.1"], **changes)})


def rows(record: Record, keep: slice) -> Record:
    capture = record.captures["reduced.1"]
    kept = Capture(
        sketch=capture.sketch[keep],
        norm2=capture.norm2[keep],
        absmax=capture.absmax[keep],
        nonfinite=capture.nonfinite[keep],
        present=capture.present[keep],
    )
    header = replace(record.header, parameters=record.header.parameters[keep])
    return replace(record, header=header, captures={"reduced.1": kept})


def test_the_untouched_record_agrees(golden: Any, record: Any) -> None:
    assert assay_record(record, golden).exit is Exit.AGREE


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"problem": Problem(name="other", digest="sha256:0")}, "other"),
        ({"dtype": DtypeProfile(parameter="bfloat16")}, "bfloat16"),
        ({"layout": Layout(dp=8, accum=4)}, "32 units"),
    ],
)
def test_incomparable(changes: dict[str, Any], words: str, golden: Any, record: Any) -> None:
    assay = assay_record(with_header(record, **changes), golden)
    assert assay.exit is Exit.INCOMPARABLE
    assert words in assay.sentence


def test_another_stage_or_step_is_incomparable(golden: Any, record: Any) -> None:
    assert assay_record(record, golden, stage="clipped").exit is Exit.INCOMPARABLE
    assert assay_record(record, golden, step=2).exit is Exit.INCOMPARABLE


def test_missing_parameters_are_incomplete(golden: Any, record: Any) -> None:
    assay = assay_record(rows(record, slice(0, -1)), golden)
    assert assay.exit is Exit.INCOMPLETE
    assert assay.unmatched_a == ("norm.0.weight",)


def test_a_divergence_outweighs_missing_parameters(toy: Any, golden: Any, make_record: Any) -> None:
    diverging = make_record(toy, layout=LAYOUT, weights={"dense": 2.0})
    assert assay_record(rows(diverging, slice(0, -1)), golden).exit is Exit.DIVERGE


def test_unknown_names_and_shapes_are_incomparable(golden: Any, record: Any) -> None:
    first, *rest = record.header.parameters
    renamed = with_header(record, parameters=(replace(first, name="other"), *rest))
    reshaped = with_header(record, parameters=(replace(first, shape=(16, 24)), *rest))
    for changed, extra in ((renamed, "other"), (reshaped, first.name)):
        assay = assay_record(changed, golden)
        assert assay.exit is Exit.INCOMPARABLE
        assert assay.unmatched_b == (extra,)


@pytest.mark.parametrize(
    ("change", "pattern"),
    [
        (lambda capture: {"present": np.array([0, 1, 1, 1, 1, 1, 1], dtype=np.uint8)}, "missing"),
        (lambda capture: {"nonfinite": np.array([2, 0, 0, 0, 0, 0, 0])}, "non-finite"),
        (lambda capture: {"sketch": np.concatenate([capture.sketch[:1] * np.nan, capture.sketch[1:]])}, "non-finite"),
        (lambda capture: {"sketch": np.concatenate([capture.sketch[:1] * 0, capture.sketch[1:]])}, "zero"),
    ],
)
def test_broken_gradients_diverge(change: Any, pattern: str, golden: Any, record: Any) -> None:
    assay = assay_record(with_capture(record, **change(record.captures["reduced.1"])), golden)
    assert assay.exit is Exit.DIVERGE
    (finding,) = assay.findings
    assert finding.law.pattern == pattern
    assert finding.parameters == ("dense.0.weight",)


def test_experts_without_tokens_in_some_units_invent_nothing(toy: Any, golden: Any, make_record: Any) -> None:
    first_micro = np.tile([1.0, 0, 0], (4, 1))
    (finding,) = assay_record(make_record(toy, layout=LAYOUT, weights={"expert": first_micro}), golden).findings
    assert finding.law.pattern in ("first-only", "zero")
    assert assay_record(make_record(toy, layout=LAYOUT), golden).verdict is Verdict.AGREE


def test_a_parameter_that_no_unit_sees_is_inconclusive(toy: Any, golden: Any, make_record: Any) -> None:
    assay = assay_record(make_record(toy, layout=Layout(dp=4)), golden)
    assert assay.exit is Exit.INCONCLUSIVE
    assert "expert.0.weight" in assay.sentence


def test_no_noise_floor_and_too_little_power_are_inconclusive(golden: Any, record: Any) -> None:
    without = {family: floor for family, floor in golden.header.noise.items() if family != "norm"}
    weak = golden.header.noise | {"norm": NoiseFloor(q50=0.2, q999=0.5, samples=100)}
    for noise, words in ((without, "norm"), (weak, "power")):
        assay = assay_record(record, replace(golden, header=replace(golden.header, noise=noise)))
        assert assay.exit is Exit.INCONCLUSIVE
        assert words in assay.sentence


def test_shards_that_leave_elements_out_are_incomplete(golden: Any, record: Any) -> None:
    first, *rest = record.header.parameters
    covered = with_header(record, parameters=(replace(first, shards=((0, 0, 200), (1, 200, 384))), *rest))
    gap = with_header(record, parameters=(replace(first, shards=((0, 0, 100), (1, 200, 384))), *rest))
    assert assay_record(covered, golden).exit is Exit.AGREE
    assert assay_record(gap, golden).exit is Exit.INCOMPLETE


def test_a_declared_convention_is_checked_like_the_objective(toy: Any, golden: Any, make_record: Any) -> None:
    halved = make_record(toy, layout=LAYOUT, weights={"expert": 0.5})
    assay = assay_record(with_header(halved, convention={"expert": "1/ep"}), golden)
    assert assay.exit is Exit.AGREE
    assert any("1/ep" in note for note in assay.notes)
    right = make_record(toy, layout=LAYOUT)
    assert assay_record(with_header(right, convention={"expert": "1/ep"}), golden).exit is Exit.DIVERGE
    with pytest.raises(UsageError, match="banana"):
        assay_record(with_header(right, convention={"expert": "banana"}), golden)


def test_records_compare_without_a_golden(toy: Any, make_record: Any) -> None:
    one, two = make_record(toy, layout=LAYOUT), make_record(toy, layout=LAYOUT, seed=7)
    assert assay_records(one, two).exit is Exit.AGREE
    wrong = assay_records(one, make_record(toy, layout=LAYOUT, weights={"expert": 2.0}))
    assert [finding.law.scale for finding in wrong.findings] == ["ep"]
    assert any("assumed" in note for note in wrong.notes)
    other = assay_records(one, make_record(toy, layout=Layout(dp=4, accum=2)))
    assert other.exit is Exit.INCOMPARABLE


def test_the_first_step_that_does_not_agree_decides(toy: Any, golden: Any, record: Any, make_toy: Any) -> None:
    both = replace(golden, bases={1: golden.bases[1], 2: golden.bases[1]})
    first = record.captures["reduced.1"]
    stages = (StageStep(stage="reduced", step=1), StageStep(stage="reduced", step=2))
    for second, verdict in ((first, Verdict.AGREE), (replace(first, sketch=2 * first.sketch), Verdict.DIVERGE)):
        steps = replace(record, header=replace(record.header, stages=stages))
        assay = assay_record(replace(steps, captures={"reduced.1": first, "reduced.2": second}), both)
        assert assay.verdict is verdict
        assert assay.stage == "reduced.2"
