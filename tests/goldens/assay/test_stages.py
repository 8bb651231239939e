from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from gradassay.goldens.assay.compare import assay_record
from gradassay.goldens.assay.own import BLIND_SPOTS, assay_self
from gradassay.goldens.assay.result import Verdict
from gradassay.goldens.errors import InvalidFile, UsageError
from gradassay.goldens.golden import Golden, read_golden
from gradassay.goldens.header import SecondStep, StageStep, Update
from gradassay.goldens.layout import Layout
from gradassay.goldens.record import Capture, Record, read_record

LAYOUT = Layout(dp=4, ep=2, accum=3)


def with_stages(record: Record, captures: dict[str, Capture], update: Update | None = None) -> Record:
    """The record with these captures, in this order."""
    wheres = [key.split(".") for key in captures]
    stages = tuple(StageStep(stage=stage, step=int(step)) for stage, step in wheres)
    return replace(record, header=replace(record.header, stages=stages, update=update), captures=captures)


def times(capture: Capture, factor: float, rows: slice = slice(None)) -> Capture:
    """The capture with some of its parameters scaled."""
    sketch, norm2 = capture.sketch.copy(), capture.norm2.copy()
    sketch[rows] *= factor
    norm2[rows] *= factor**2
    return replace(capture, sketch=sketch, norm2=norm2)


@pytest.fixture
def reduced(make_record: Any) -> Record:
    return make_record(layout=LAYOUT)


@pytest.fixture
def golden(make_golden: Any) -> Golden:
    return make_golden()


def test_every_stage_is_compared_with_what_it_should_hold(reduced: Record, golden: Golden) -> None:
    capture = reduced.captures["reduced.1"]
    coefficient = 0.5 / (capture.norm2.sum() ** 0.5 + 1e-6)
    assert coefficient < 0.1
    clipped = times(capture, coefficient)
    record = with_stages(
        reduced,
        {"reduced.1": capture, "clipped.1": clipped, "update.1": clipped},
        Update(learning_rate=0.1, max_norm=0.5),
    )
    assay = assay_record(record, golden)
    assert assay.verdict is Verdict.AGREE
    assert "reduced.1, clipped.1, update.1 agree" in assay.notes

    unclipped = assay_record(
        with_stages(record, {**record.captures, "clipped.1": capture}, record.header.update), golden
    )
    assert (unclipped.verdict, unclipped.stage) == (Verdict.DIVERGE, "clipped.1")
    assert unclipped.sentence.startswith("diverge at clipped.1: all ")
    assert [finding.law.scale for finding in unclipped.findings] == ["norm/max_norm"]


def test_a_clip_upside_down_is_named(reduced: Record, golden: Golden) -> None:
    capture = reduced.captures["reduced.1"]
    norm = float(capture.norm2.sum()) ** 0.5
    update = Update(learning_rate=0.1, max_norm=3.7 * norm)
    captures = {"reduced.1": capture, "update.1": times(capture, 3.7)}
    assay = assay_record(with_stages(reduced, captures, update), golden)
    assert assay.stage == "update.1"
    assert [finding.law.scale for finding in assay.findings] == ["max_norm/norm"]
    right = assay_record(with_stages(reduced, {**captures, "update.1": capture}, update), golden)
    assert right.verdict is Verdict.AGREE


def test_the_first_stage_of_a_fault_is_named(reduced: Record, golden: Golden) -> None:
    capture, update = reduced.captures["reduced.1"], Update(learning_rate=0.1)
    frozen = times(capture, 0.0, slice(1, 2))
    assay = assay_record(with_stages(reduced, {"reduced.1": capture, "update.1": frozen}, update), golden)
    assert (assay.verdict, assay.stage) == (Verdict.DIVERGE, "update.1")
    assert [(finding.law.pattern.value, finding.parameters) for finding in assay.findings] == [
        ("zero", (golden.header.parameters[1].name,))
    ]
    assert any("first seen at stage update.1: reduced.1 agrees" in note for note in assay.notes)

    doubled = times(capture, 2.0)
    earlier = assay_record(with_stages(reduced, {"reduced.1": doubled, "update.1": doubled}, update), golden)
    assert earlier.stage == "reduced.1"
    assert any("seen from the first stage on" in note for note in earlier.notes)
    alone = assay_record(
        with_stages(reduced, {"reduced.1": capture, "update.1": frozen}, update), golden, stage="reduced"
    )
    assert alone.verdict is Verdict.AGREE


def test_the_rounding_of_parameters_widens_the_tolerance_of_an_update(reduced: Record, golden: Golden) -> None:
    capture, update = reduced.captures["reduced.1"], Update(learning_rate=0.1)
    off = times(capture, 1.001)
    size = np.linalg.norm(capture.sketch, axis=1)
    exact = with_stages(reduced, {"update.1": off}, update)
    coarse = with_stages(reduced, {"update.1": replace(off, rounding=0.002 * size)}, update)
    assert assay_record(exact, golden).verdict is Verdict.DIVERGE
    assert assay_record(coarse, golden).verdict is Verdict.AGREE
    assert max(assay_record(coarse, golden).power.values()) > 1.002


def test_what_cannot_be_said_is_no_verdict(reduced: Record, golden: Golden) -> None:
    capture = reduced.captures["reduced.1"]
    nobody = assay_record(with_stages(reduced, {"update.1": capture}), golden)
    assert nobody.verdict is Verdict.INCOMPARABLE
    assert "does not say which update was made" in nobody.sentence
    clipped = Update(learning_rate=0.1, max_norm=1.0)
    lacking = assay_record(with_stages(reduced, {"clipped.1": capture}, clipped), golden)
    assert lacking.verdict is Verdict.INCOMPARABLE
    assert "which the record lacks" in lacking.sentence
    invented = assay_record(with_stages(reduced, {"polished.1": capture}), golden)
    assert invented.verdict is Verdict.INCOMPARABLE
    assert "stage polished is not known" in invented.sentence


def test_a_second_step_is_compared_after_the_same_update_only(reduced: Record, golden: Golden) -> None:
    update = Update(learning_rate=0.1)
    second = SecondStep(units=LAYOUT.units, update=update, noise=golden.header.noise)
    later = replace(
        golden,
        header=replace(golden.header, second=second),
        bases={1: golden.bases[1], 2: replace(golden.bases[1], sketch=3 * golden.bases[1].sketch)},
    )
    capture = reduced.captures["reduced.1"]
    captures = {"reduced.1": capture, "reduced.2": times(capture, 3.0)}
    assert "reduced.1, reduced.2 agree" in assay_record(with_stages(reduced, captures, update), later).notes
    stuck = assay_record(with_stages(reduced, {**captures, "reduced.2": capture}, update), later)
    assert (stuck.verdict, stuck.stage) == (Verdict.DIVERGE, "reduced.2")
    other = assay_record(with_stages(reduced, captures, Update(learning_rate=0.2)), later)
    assert other.verdict is Verdict.AGREE
    assert any("not compared: reduced.2" in note and "learning rate 0.2" in note for note in other.notes)


def test_second_steps_and_units_survive_their_files(reduced: Record, golden: Golden, tmp_path: Any) -> None:
    second = SecondStep(units=12, update=Update(learning_rate=0.1), noise=golden.header.noise)
    both = replace(golden, header=replace(golden.header, second=second), bases={1: golden.bases[1], 2: golden.bases[1]})
    both.write(tmp_path / "golden")
    assert read_golden(tmp_path / "golden").header.second == second
    own(reduced, golden).write(tmp_path / "record", sketch_dtype=np.float64)
    again = read_record(tmp_path / "record")
    assert again.captures["local.1"].units is not None
    assert again.captures["local.1"].units.shape == (12, len(golden.header.parameters), 1024)
    assert again.header.update == Update(learning_rate=0.1)


def own(record: Record, golden: Golden, factor: dict[str, float] | None = None) -> Record:
    """The record with the local gradients that a mean over dp ranks makes its gradient of; factor: by family, on that."""
    dp = record.header.layout.dp
    units = golden.bases[1].sketch[: record.header.layout.units] * dp / record.header.layout.units
    mean = units.sum(axis=0) / dp
    scale = np.array([(factor or {}).get(p.family, 1.0) for p in record.header.parameters])[:, None]
    local = replace(record.captures["reduced.1"], sketch=mean, units=units)
    reduced = replace(record.captures["reduced.1"], sketch=mean * scale, norm2=(mean * scale**2 * mean).sum(1))
    return with_stages(record, {"local.1": local, "reduced.1": reduced}, Update(learning_rate=0.1))


def test_a_record_is_assayed_against_its_own_units(reduced: Record, golden: Golden) -> None:
    healthy = assay_self(own(reduced, golden))
    assert healthy.verdict is Verdict.AGREE
    assert BLIND_SPOTS in healthy.notes
    assert "match its own local gradients" in healthy.sentence
    wrong = assay_self(own(reduced, golden, {"expert": 2.0}))
    assert wrong.verdict is Verdict.DIVERGE
    assert [(finding.families, finding.law.scale) for finding in wrong.findings] == [(("expert",), "ep")]
    assert assay_record(own(reduced, golden), golden).verdict is Verdict.AGREE


def test_one_micro_batch_too_heavy_shows_as_its_weight(reduced: Record, golden: Golden) -> None:
    record = own(reduced, golden)
    units = record.captures["local.1"].units
    assert units is not None
    weights = np.repeat([0.25, 1.0, 4.0], LAYOUT.dp)
    decayed = np.tensordot(weights / LAYOUT.dp, units, 1)
    captures = {**record.captures, "reduced.1": replace(record.captures["reduced.1"], sketch=decayed)}
    (finding,) = assay_self(replace(record, captures=captures)).findings
    assert finding.law.formula == "w[r,m] = dp**(m-M+2)"


def test_a_record_without_units_has_nothing_to_be_assayed_against(reduced: Record) -> None:
    with pytest.raises(UsageError, match="holds no local gradients") as raised:
        assay_self(reduced)
    assert "--self-assay" in raised.value.hint


@pytest.mark.parametrize("groups", [1, 2, 4])
def test_ranks_in_groups_still_show_the_law(reduced: Record, golden: Golden, groups: int) -> None:
    record = own(reduced, golden, {"expert": 2.0})
    units = record.captures["local.1"].units
    assert units is not None
    folded = units.reshape(LAYOUT.accum, groups, LAYOUT.dp // groups, *units.shape[1:]).sum(2)
    local = replace(record.captures["local.1"], units=folded.reshape(-1, *units.shape[1:]))
    assay = assay_self(replace(record, captures={**record.captures, "local.1": local}))
    assert [(finding.families, finding.law.formula) for finding in assay.findings] == [(("expert",), "w[r,m] = ep")]
    assert assay.layout == LAYOUT
    assert any("groups of" in note for note in assay.notes) == (groups < LAYOUT.dp)


def test_a_file_with_too_few_or_too_many_units_is_refused(reduced: Record, golden: Golden, tmp_path: Any) -> None:
    record = own(reduced, golden)
    units = record.captures["local.1"].units
    assert units is not None
    for rows in (2, 9, 24):
        local = replace(record.captures["local.1"], units=np.resize(units, (rows, *units.shape[1:])))
        replace(record, captures={**record.captures, "local.1": local}).write(tmp_path / "record")
        with pytest.raises(
            InvalidFile, match=rf"unit_sketch: expected accum = 3 times a divisor of dp = 4 rows, found {rows}"
        ):
            read_record(tmp_path / "record")


@pytest.mark.parametrize(
    ("dtype", "factor", "verdict"),
    [
        ("bfloat16", 1.002, Verdict.AGREE),
        ("bfloat16", 1.02, Verdict.DIVERGE),
        ("float32", 1.002, Verdict.DIVERGE),
    ],
)
def test_coarser_sums_widen_the_tolerance_of_bfloat16_runs_only(
    make_record: Any, make_golden: Any, dtype: str, factor: float, verdict: Verdict
) -> None:
    golden = make_golden(dtype=dtype)
    record = make_record(layout=LAYOUT, dtype=dtype)
    record = replace(record, captures={"reduced.1": times(record.captures["reduced.1"], factor)})
    assert assay_record(record, golden).verdict is Verdict.DIVERGE
    said = replace(record, header=replace(record.header, environment={"reduce_dtype": "bfloat16"}))
    assay = assay_record(said, golden)
    assert assay.verdict is verdict
    assert any("sums are coarser" in note for note in assay.notes) == (dtype == "bfloat16")
