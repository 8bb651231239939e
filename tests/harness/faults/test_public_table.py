"""The table of public faults: it covers the catalogue, its rows can run, and a judgement is no rubber stamp."""

from __future__ import annotations

from dataclasses import replace

import pytest
from faulty.finding import judged
from faulty.table import TABLE, Expected, How, Report, Trial, load_reports
from public_faults import Result, page

from gradassay.goldens.assay.result import Assay, Finding, Law, Pattern, Side, Verdict
from gradassay.goldens.faults import load_catalogue
from gradassay.goldens.layout import Layout
from gradassay.harness.environments import parse
from gradassay.harness.launch.outcome import RUN_RANK
from gradassay.harness.worker import check_cell

REPORTS = load_reports()
FAULTS = {fault.id: fault for fault in load_catalogue()}
ROWS = [pytest.param(report, id=f"{report.fault}-{number}") for number, report in enumerate(REPORTS)]


def test_every_fault_of_the_catalogue_is_run_and_nothing_else() -> None:
    assert {report.fault for report in REPORTS} == FAULTS.keys()


@pytest.mark.parametrize("report", ROWS)
def test_row_runs_on_one_thing_beside_a_control(report: Report) -> None:
    assert sum(map(bool, (report.releases, report.script, report.inject))) == 1
    assert bool(report.fixed or report.sound_layout) is bool(report.releases)
    for release in (*report.releases, *report.fixed):
        assert parse(release)[0] == report.releases[0].partition("==")[0]
    module = report.script or report.function.partition(":")[0].removeprefix("faulty.")
    assert report.function == RUN_RANK or report.releases
    if report.rank_function != RUN_RANK:
        assert (TABLE.parent / "faulty" / f"{module}.py").is_file()
    else:
        for trial in report.trials():
            check_cell(trial.cell)
    assert {trial.control for trial in report.trials()} == {False, True}


@pytest.mark.parametrize("report", ROWS)
def test_expected_law_is_the_reports_own(report: Report) -> None:
    fault = FAULTS[report.fault]
    assert report.expected.pattern is fault.pattern
    if report.named:
        assert set(report.expected.laws) <= set(fault.laws)
    families = set(report.expected.families)
    assert families == {"all"} or "all" not in fault.families


def test_what_runs_for_real_is_what_the_catalogue_calls_reproduced() -> None:
    real = {report.fault for report in REPORTS if report.how is How.RELEASE}
    assert real <= {fault.id for fault in FAULTS.values() if fault.reproduced}


REPORT = Report(
    fault="deepspeed-6545",
    expected=Expected(pattern=Pattern.UNIFORM, laws=("ep",), families=("expert",)),
    layout="dp4.ep2",
    script="none",
)
BROKEN, CONTROL = REPORT.trials()


def _assay(*findings: Finding, verdict: Verdict = Verdict.DIVERGE) -> Assay:
    side = Side(kind="record", ref="r")
    return Assay(
        verdict=verdict, a=side, b=side, stage="reduced.1", layout=Layout(), sentence="a sentence", findings=findings
    )


def _finding(formula: str = "w[r,m] = ep", families: tuple[str, ...] = ("expert",), **changes: object) -> Finding:
    found = Finding(
        families=families,
        parameters=("p",),
        count=1,
        of=1,
        law=Law(pattern=Pattern.UNIFORM, formula=formula, scale="ep"),
        weights=None,
        weights_stderr=None,
        residual=None,
        known_faults=("deepspeed-6545",),
    )
    return replace(found, **changes)  # type: ignore[arg-type]


def test_what_is_expected_is_good() -> None:
    found = judged(BROKEN, _assay(_finding()))
    assert (found.good, found.detected, found.named) == (True, True, True)
    assert found.laws == ("uniform: w[r,m] = ep",)
    tied = _finding("w[r,m] = dp", law=Law(pattern=Pattern.UNIFORM, formula="w[r,m] = dp", scale="dp", ties=("ep",)))
    assert judged(BROKEN, _assay(tied)).good


@pytest.mark.parametrize(
    ("trial", "assay", "complaint"),
    [
        (BROKEN, _assay(verdict=Verdict.AGREE), "not detected"),
        (CONTROL, _assay(_finding()), "a control must agree"),
        (CONTROL, _assay(verdict=Verdict.INCOMPLETE), "a control must agree"),
        (BROKEN, _assay(_finding("w[r,m] = 2", law=Law(pattern=Pattern.UNIFORM, formula="w[r,m] = 2"))), "expected ep"),
        (BROKEN, _assay(_finding(law=Law(pattern=Pattern.SIGN, formula="w[r,m] = ep"))), "expected uniform"),
        (BROKEN, _assay(_finding(families=("expert", "dense"))), "diverging families are dense, expert, not expert"),
        (BROKEN, _assay(_finding(known_faults=())), "looks like nothing"),
    ],
)
def test_anything_else_is_a_complaint(trial: Trial, assay: Assay, complaint: str) -> None:
    found = judged(trial, assay)
    assert not found.good
    assert any(complaint in text for text in found.complaints), found.complaints


def test_report_that_is_not_to_be_named_complains_once_it_is() -> None:
    unnamed = replace(BROKEN, report=replace(REPORT, named=False))
    assert not judged(unnamed, _assay(_finding())).good
    assert judged(unnamed, _assay(_finding(known_faults=()))).good


def test_page_says_what_was_found_and_what_went_wrong() -> None:
    good = [
        Result(trial=BROKEN, judgement=judged(BROKEN, _assay(_finding()))),
        Result(trial=CONTROL, judgement=judged(CONTROL, _assay(verdict=Verdict.AGREE))),
    ]
    text = page(good)
    assert "`uniform: w[r,m] = ep` | yes | yes | agrees |" in text
    assert "2 of 2 trials are as they should be." in text
    text = page([good[0], Result(trial=CONTROL, reason="rank 1: died")])
    assert "yes | yes | **diverges** |" in text
    assert "1 of 2 trials" in text
    assert f"- {CONTROL}: rank 1: died" in text
