"""`make controls`: what it plans around frameworks, its judgements, its page, and when it fails."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import controls
import numpy as np
import pytest
from controls import FAULTS, INAPPLICABLE, Control, Result, planned, releases
from controls_page import page

from gradassay.goldens.golden import Golden
from gradassay.goldens.header import Framework, RecordHeader, StageStep
from gradassay.goldens.layout import Layout
from gradassay.goldens.record import Capture, Record
from gradassay.harness.cell import Cell
from gradassay.harness.controls import altered
from gradassay.harness.faults import Site, parse_fault
from gradassay.harness.launch import Failure, Outcome, Pool, Task
from gradassay.harness.problems import load_problem
from gradassay.harness.worker import check_cell
from quick_golden import quick_golden

DIGEST = "sha256:a"


@pytest.mark.parametrize("release", releases())
def test_every_release_has_a_healthy_cell_and_faults_of_many_kinds(release: str) -> None:
    found = planned(release)
    assert [one.kind for one in found].count("healthy") == 1
    broken = [one for one in found if one.kind in ("injected", "altered")]
    assert [one.fault for one in broken] == list(FAULTS)
    assert sum(one.kind == "injected" for one in broken) >= 6
    assert len({one.key for one in found}) == len(found)
    for one in found:
        check_cell(one.cell)
        assert bool(one.cell.fault) is (one.kind == "injected")


def test_only_what_cannot_be_injected_is_altered() -> None:
    found = {one.fault: one.kind for one in planned("lightning==2.6.6")}
    assert found["rank-disagreement:norm"] == "altered"
    assert found["geometric:all:base=dp,scale=dp"] == "injected"


def test_releases_with_faults_of_their_own_show_them() -> None:
    own = [one for one in planned("deepspeed==0.15.3") if one.kind == "own"]
    assert [(str(one.cell.layout), one.fault) for one in own] == [("dp4.ep2.accum3", "deepspeed-6545")]
    assert {one.cell.layout.ep for one in planned("deepspeed==0.15.3") if one.kind != "own"} == {1}
    assert set(controls.OWN) <= set(releases())


@pytest.fixture(scope="module")
def golden() -> Golden:
    return quick_golden("moe-tiny")


@pytest.fixture(scope="module")
def record(golden: Golden) -> Record:
    return exact_record(golden, Layout(dp=4, accum=3))


def exact_record(golden: Golden, layout: Layout) -> Record:
    """The record of a run without any rounding, whose ranks hold whole parameters."""
    basis = golden.bases[1]
    sketch = np.einsum("u,upk->pk", golden.true_coefficients(layout.units), basis.sketch[: layout.units])
    count = len(sketch)
    header = RecordHeader(
        problem=golden.header.problem,
        framework=Framework(name="toy", version="1"),
        strategy="ddp",
        layout=layout,
        dtype=golden.header.dtype,
        stages=(StageStep(stage="reduced", step=1),),
        parameters=golden.header.parameters,
        environment={},
        created="2026-11-30T12:00:00Z",
    )
    capture = Capture(
        sketch=sketch,
        norm2=np.einsum("pk,pk->p", sketch, sketch),
        absmax=np.abs(sketch).max(axis=1),
        nonfinite=np.zeros(count, dtype=np.int64),
        present=np.ones(count, dtype=np.uint8),
    )
    return Record(header=header, captures={"reduced.1": capture})


def _control(kind: str, fault: str = "") -> Control:
    cell = Cell(
        problem="moe-tiny",
        strategy="lightning-ddp",
        layout=Layout(dp=4, accum=3),
        framework="lightning==2.6.6",
        fault=fault if kind == "injected" else "",
    )
    return Control(kind=kind, cell=cell, fault=fault)


def _broken(record: Record, golden: Golden, text: str) -> Record:
    site = Site(problem=load_problem("moe-tiny"), layout=record.header.layout)
    return altered(record, parse_fault(text), site, golden)


def test_a_healthy_record_is_good_and_a_broken_one_is_not(golden: Golden, record: Record) -> None:
    assert controls.judged(_control("healthy"), record, golden, DIGEST).good
    bad = controls.judged(_control("healthy"), _broken(record, golden, "sign:norm"), golden, DIGEST)
    assert (bad.verdict, bad.good) == ("diverge", False)
    assert bad.reason


def test_an_injected_fault_must_be_seen_and_named(golden: Golden, record: Record) -> None:
    control = _control("injected", "sign:norm")
    unseen = controls.judged(control, record, golden, DIGEST)
    assert (unseen.detected, unseen.good) == (False, False)
    misnamed = controls.judged(control, _broken(record, golden, "zero:norm"), golden, DIGEST)
    assert (misnamed.detected, misnamed.good) == (True, False)
    named = controls.judged(control, _broken(record, golden, "sign:norm"), golden, DIGEST)
    assert named.good
    assert named.laws == ["sign: w[r,m] = -1"]


def test_what_ranks_kept_of_a_declared_sum_is_divided_with_it(golden: Golden, record: Record) -> None:
    control = _control("injected", "unreduced:dense")
    kept, own = (_broken(record, golden, text) for text in ("unreduced:dense", "unreduced:dense:factor=1"))
    assert controls.judged(control, kept, golden, DIGEST).good
    assert not controls.judged(control, own, golden, DIGEST).good
    capture = own.captures["reduced.1"]
    assert capture.rank_sketch is not None
    sums = replace(
        capture,
        sketch=4 * capture.sketch,
        rank_sketch=4 * capture.rank_sketch,
        norm2=16 * capture.norm2,
        absmax=4 * capture.absmax,
    )
    declared = replace(own.header, convention={"all": "dp"})
    assert controls.judged(control, Record(header=declared, captures={"reduced.1": sums}), golden, DIGEST).good


@pytest.mark.parametrize("fault", FAULTS)
def test_every_fault_is_named_in_an_altered_record(golden: Golden, record: Record, fault: str) -> None:
    found = controls.judged(_control("altered", fault), record, golden, DIGEST)
    assert found.good, found.reason


def test_shards_have_no_copies_to_disagree(golden: Golden, record: Record) -> None:
    first = record.header.parameters[0]
    shards = (replace(first, shards=((0, 0, first.numel),)), *record.header.parameters[1:])
    sharded = replace(record, header=replace(record.header, parameters=shards))
    found = controls.judged(_control("altered", "rank-disagreement:norm"), sharded, golden, DIGEST)
    assert (found.verdict, found.good) == (INAPPLICABLE, True)


class Ranks:
    """A pool whose ranks refuse to inject one fault, as those of Megatron-Core do, and fail at another."""

    def __init__(self, record: Record, refused: str, failing: str) -> None:
        self.record, self.refused, self.failing = record, refused, failing
        self.asked: list[str] = []

    def run(self, tasks: Iterable[Task]) -> Iterator[Outcome]:
        for task in tasks:
            self.asked.append(task.cell.fault)
            if task.cell.fault in (self.refused, self.failing):
                hint = "leave it" if task.cell.fault == self.refused else ""
                yield Outcome(cell=task.cell, seconds=1.0, failure=Failure(rank=0, reason="no", refused=hint))
            else:
                self.record.write(task.out)
                yield Outcome(cell=task.cell, seconds=1.0, path=task.out)


@pytest.mark.parametrize("planned_too", [True, False])
def test_what_ranks_refuse_to_inject_is_put_into_their_healthy_record(
    golden: Golden, record: Record, tmp_path: Path, planned_too: bool
) -> None:
    file, records = tmp_path / "golden", tmp_path / "records"
    golden.write(file)
    records.mkdir()
    asked = [_control("injected", "geometric:all:base=dp,scale=dp"), _control("injected", "sign:norm")]
    if planned_too:
        asked.insert(0, _control("healthy"))
    ranks = Ranks(record, "geometric:all:base=dp,scale=dp", "sign:norm")
    found = {one.key: one for one in controls.run(asked, file, records, cast("Pool", ranks))}
    assert set(found) == {one.key for one in asked}
    altered_one, failed = (found[one.key] for one in asked[-2:])
    assert (altered_one.kind, altered_one.good) == ("altered", True)
    assert (failed.kind, failed.verdict, failed.reason) == ("injected", "", "rank 0: no")
    assert ranks.asked.count("") == 1
    assert len(list(records.iterdir())) == 1


def test_a_releases_own_fault_must_name_its_report(golden: Golden, record: Record) -> None:
    broken = _broken(record, golden, "geometric:all:base=dp,scale=dp")
    assert controls.judged(_control("own", "megatron-lm-3023"), broken, golden, DIGEST).good
    other = controls.judged(_control("own", "deepspeed-6545"), broken, golden, DIGEST)
    assert (other.detected, other.good) == (True, False)
    assert not controls.judged(_control("own", "megatron-lm-3023"), record, golden, DIGEST).good


def _result(kind: str, **changed: Any) -> Result:
    verdict = "agree" if kind == "healthy" else "diverge"
    given = {"release": "deepspeed==0.19.8", "strategy": "deepspeed-zero2", "layout": "dp4", "golden": DIGEST}
    return Result(**{"key": f"{kind} | cell | x", "kind": kind, "verdict": verdict, **given, **changed})


def test_the_page_says_which_is_which() -> None:
    every: Mapping[str, list[Result | None]] = {
        "deepspeed==0.19.8": [
            _result("healthy"),
            _result("injected", fault="sign:norm", laws=["sign: w[r,m] = -1"]),
            _result("injected", fault="zero:norm", reason="expected zero"),
            _result("altered", fault="rank-disagreement:norm"),
            _result("altered", fault="rank-disagreement:norm", verdict=INAPPLICABLE),
            _result("own", fault="deepspeed-6545", laws=["uniform: w[r,m] = ep"]),
        ],
        "accelerate==1.6.0": [None, None],
    }
    text = page(every, ["lightning==2.4.0"])
    assert "4 of 5 controls are as they should be; 1 do not apply; 2 were not run yet." in text
    row = "| deepspeed==0.19.8 | deepspeed-zero2 | dp4 | agree | 2 of 2 detected, 1 named | 1 of 1 detected, 1 named |"
    assert f"{row} 1 of 1 detected, 1 named |" in text
    assert "| `sign:norm` | 1 of 1 detected, 1 named | none | `sign: w[r,m] = -1` |" in text
    assert "| cell | deepspeed-6545 | diverge | `uniform: w[r,m] = ep` |" in text
    assert "## Not run yet\n\n- accelerate==1.6.0" in text
    assert "## Not installed\n\n- lightning==2.4.0" in text
    assert "- injected | cell | x: expected zero" in text


@pytest.mark.parametrize(("reason", "code"), [("", 0), ("it agrees", 1)])
def test_what_is_not_good_makes_the_exit_code_1_and_is_tried_again(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, golden: Golden, reason: str, code: int
) -> None:
    asked: list[str] = []

    def run(left: list[Control], path: Path, *_: object) -> Iterator[Result]:
        digest = controls.digest_of_file(path)
        for one in left:
            asked.append(one.key)
            yield _result(one.kind, key=one.key, fault=one.fault, golden=digest, reason=reason)

    file = tmp_path / "golden"
    golden.write(file)
    monkeypatch.setattr(controls, "run", run)
    monkeypatch.setattr(controls, "kept_golden", lambda *_: file)
    monkeypatch.setattr(controls, "installed", lambda _: True)
    arguments = [
        "--folder",
        str(tmp_path),
        "--page",
        str(tmp_path / "page.md"),
        "--only",
        "deepspeed==0.15.3",
        "lightning",
    ]
    assert controls.main(arguments) == code
    every = list(asked)
    chosen = [one for one in releases() if one == "deepspeed==0.15.3" or one.startswith("lightning==")]
    assert every == [control.key for one in chosen for control in planned(one)]
    asked.clear()
    assert controls.main(arguments) == code
    assert asked == (every if code else [])
    assert "- deepspeed==0.19.8" in (tmp_path / "page.md").read_text()


def test_an_unknown_release_is_a_usage_error(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        controls.main(["--only", "deepspeed==9"])
    assert ended.value.code == 2
    assert "deepspeed==9: choose from deepspeed==0.19.8" in capsys.readouterr().err
