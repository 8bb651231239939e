"""Accepted and rejected divergences: bounded, shown, in the ledger, and never a change of the verdict."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone

import pytest

from builders import make_record
from gradassay.api.database.tables import EntryRow
from gradassay.api.judging.judged import Judged
from gradassay.api.judging.law import law_id, verdict_law
from gradassay.api.reviews.review import Standing
from gradassay.api.runs.run import Run
from gradassay.goldens.errors import Conflict, NotFound, UsageError
from gradassay.goldens.layout import Layout
from judged import LAYOUT, Bench, caller

DAY = timedelta(days=1)
LAW = law_id(["expert"], "uniform", "w[r,m] = ep")


def judged(bench: Bench, run: Run) -> Judged:
    found = bench.assays.judge(bench.assays.question(run), wait_s=60)
    assert found is not None
    return found


def soon() -> datetime:
    return datetime.now(UTC) + 30 * DAY


@pytest.fixture
def run(bench: Bench) -> Run:
    """A run that was judged: its experts are too large by ep."""
    bench.approve(bench.golden())
    made = bench.post()
    judged(bench, made)
    return made


def test_accepted_divergence_still_diverges_and_says_who_accepted_it(bench: Bench, run: Run):
    assert not bench.reviews.acceptance(judged(bench, run), run).every_finding
    review = bench.reviews.accept(run, law=LAW, reason="known, being mended", expires_at=soon(), who="ada")
    assert (review.formula, review.golden, len(review.parameters)) == ("w[r,m] = ep", "toy.float32", 2)
    found = bench.reviews.acceptance(judged(bench, run), run)
    assert judged(bench, run).verdict == "diverge"
    assert found.every_finding
    (finding,) = found.findings
    assert (finding.accepted, finding.reviews, finding.uncovered) == (True, (review,), ())
    assert bench.reviews.of_run(run) == [review]
    assert bench.reviews.find(review.number, caller()) == review
    with pytest.raises(NotFound):
        bench.reviews.find(review.number, caller("other"))


def test_acceptance_ends_when_it_expires_and_is_shown_all_the_same(bench: Bench, run: Run):
    review = bench.reviews.accept(run, law=LAW, reason="known", expires_at=soon(), who="ada")
    before, after = review.expires_at - DAY, review.expires_at
    assert (review.standing(before), review.standing(after)) == (Standing.ACTIVE, Standing.EXPIRED)
    assert bench.reviews.acceptance(judged(bench, run), run, now=before).every_finding
    assert not bench.reviews.acceptance(judged(bench, run), run, now=after).every_finding
    assert bench.reviews.of_run(run) == [review]


def test_withdrawn_decision_counts_no_more_and_stays(bench: Bench, run: Run):
    review = bench.reviews.accept(run, law=LAW, reason="known", expires_at=soon(), who="ada")
    withdrawn = bench.reviews.withdraw(review.number, "bob", run=run)
    assert withdrawn.standing(datetime.now(UTC)) is Standing.WITHDRAWN
    assert not bench.reviews.acceptance(judged(bench, run), run).every_finding
    assert bench.reviews.of_run(run) == [withdrawn]
    with pytest.raises(Conflict):
        bench.reviews.withdraw(review.number, "bob")
    with pytest.raises(NotFound):
        bench.reviews.withdraw(99, "bob")
    with pytest.raises(NotFound):
        bench.reviews.withdraw(review.number, "bob", run=bench.post(seed=9))


def test_every_decision_is_in_the_ledger(bench: Bench, run: Run):
    accepted = bench.reviews.accept(run, law=LAW, reason="known", expires_at=soon(), who="ada")
    bench.reviews.withdraw(accepted.number, "bob")
    bench.reviews.reject(run, law=LAW, reason="mend it", who="eve")
    with bench.database.read() as session:
        entries = session.query(EntryRow).filter(EntryRow.run == run.id).order_by(EntryRow.number).all()
    assert [(entry.action, entry.who, entry.golden, entry.project) for entry in entries] == [
        ("accepted", "ada", "toy.float32", "default"),
        ("withdrawn", "bob", "toy.float32", "default"),
        ("rejected-run", "eve", "toy.float32", "default"),
    ]
    assert [entry.why for entry in entries] == ["known", "accepted: known", "mend it"]
    assert [str(entry.action) for entry in bench.ledger.entries("default", golden="toy.float32").items][:3] == [
        "rejected-run",
        "withdrawn",
        "accepted",
    ]


def test_only_the_parameters_that_are_named_are_accepted(bench: Bench, run: Run):
    for name in ("expert.0.weight", "expert.1.weight"):
        assert not bench.reviews.acceptance(judged(bench, run), run).every_finding
        bench.reviews.accept(run, law=LAW, parameters=[name], reason="known", expires_at=soon(), who="ada")
        bench.reviews.acceptance(judged(bench, run), run)
    assert bench.reviews.acceptance(judged(bench, run), run).every_finding


def test_what_is_accepted_of_one_run_is_accepted_of_the_next_of_its_framework(bench: Bench, run: Run):
    bench.reviews.accept(run, law=LAW, reason="known", expires_at=soon(), who="ada")
    alike = bench.post(seed=5)
    foreign = bench.post(seed=6, framework="deepspeed")
    worse = bench.post(seed=7, weights={"expert": 2.0, "dense": 3.0})
    other_law = bench.post(seed=8, weights={"expert": 0.25})
    accepted = {
        name: bench.reviews.acceptance(judged(bench, one), one).every_finding
        for name, one in {"alike": alike, "foreign": foreign, "worse": worse, "other law": other_law}.items()
    }
    assert accepted == {"alike": True, "foreign": False, "worse": False, "other law": False}
    assert [one.accepted for one in bench.reviews.acceptance(judged(bench, worse), worse).findings].count(True) == 1


def test_rejection_accepts_nothing(bench: Bench, run: Run):
    bench.reviews.reject(run, law="w[r,m] = ep", reason="mend it", who="ada")
    assert not bench.reviews.acceptance(judged(bench, run), run).every_finding


def test_agreeing_run_has_nothing_to_accept(bench: Bench, run: Run):
    fine = bench.post(weights={}, seed=3)
    assert not bench.reviews.acceptance(judged(bench, fine), fine).every_finding
    with pytest.raises(UsageError, match="no assay shows the law"):
        bench.reviews.accept(fine, law=LAW, reason="known", expires_at=soon(), who="ada")
    with pytest.raises(UsageError):
        bench.reviews.accept(fine, law=verdict_law("agree"), reason="known", expires_at=soon(), who="ada")


def test_verdict_without_a_law_can_be_decided_about(bench: Bench, run: Run):
    fits = make_record(bench.toy, layout=LAYOUT)
    wide = bench.post(replace(fits, header=replace(fits.header, layout=Layout(dp=16))))
    assert judged(bench, wide).verdict == "incomparable"
    review = bench.reviews.reject(wide, law=verdict_law("incomparable"), reason="too wide", who="ada")
    assert (review.law, review.formula, review.parameters) == ("verdict:incomparable", "", ())


@pytest.mark.parametrize(
    "expires_at",
    [
        datetime.now(UTC) - DAY,
        datetime.now(UTC) + 400 * DAY,
        datetime(9999, 12, 31, 23, 59, tzinfo=timezone(-12 * timedelta(hours=1))),
        datetime(1, 1, 1, tzinfo=timezone(12 * timedelta(hours=1))),
        (datetime.now(UTC) + DAY).replace(tzinfo=None),
    ],
)
def test_end_must_be_within_a_year(bench: Bench, run: Run, expires_at: datetime):
    with pytest.raises(UsageError, match="expires_at"):
        bench.reviews.accept(run, law=LAW, reason="known", expires_at=expires_at, who="ada")


@pytest.mark.parametrize(
    "wrong",
    [
        {"reason": "  "},
        {"reason": "x" * 5000},
        {"reason": "a\0b"},
        {"law": ""},
        {"law": "a\0"},
        {"law": "w[r,m] = tp"},
        {"parameters": ["no.such.weight"]},
        {"assay": "0" * 32},
    ],
)
def test_review_that_makes_no_sense_is_refused(bench: Bench, run: Run, wrong: dict):
    given = {"law": LAW, "reason": "known", "expires_at": soon(), "who": "ada"} | wrong
    with pytest.raises(UsageError):
        bench.reviews.accept(run, **given)
    assert bench.reviews.of_run(run) == []
