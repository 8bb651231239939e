"""The inbox: what nobody has decided about, by law, whatever the number of runs."""

from __future__ import annotations

import time
import zlib
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import event

from builders import make_record
from gradassay.api.database.tables import AssayRow, FindingRow, RunRow
from gradassay.api.judging.law import law_id
from gradassay.api.reviews.inbox import Group
from gradassay.api.runs.run import Run
from gradassay.goldens.faults import load_catalogue
from gradassay.goldens.layout import Layout
from judged import LAYOUT, Bench

LAW = law_id(["expert"], "uniform", "w[r,m] = ep")
MANY = 2000


@pytest.fixture
def approved(bench: Bench) -> Bench:
    """The bench with an approved golden."""
    bench.approve(bench.golden())
    return bench


def post(bench: Bench, **options: object) -> Run:
    """Posts a run and judges it."""
    run = bench.post(**options)
    bench.assays.judge(bench.assays.question(run), wait_s=60)
    return run


def soon() -> datetime:
    return datetime.now(UTC) + timedelta(days=30)


def test_empty_inbox(bench: Bench):
    assert bench.reviews.inbox("default") == []
    bench.post()
    assert bench.reviews.inbox("default") == []


def test_runs_of_one_law_are_one_group(approved: Bench):
    first = post(approved, who="ci-1", framework="deepspeed", strategy="deepspeed-zero2")
    second = post(approved, who="ci-2", layout=Layout(dp=2, ep=2, accum=2), framework="deepspeed", strategy="zero1")
    post(approved, weights={}, seed=4)
    other = post(approved, weights={"dense": 0.5}, seed=5)
    groups = approved.reviews.inbox("default")
    assert [group.runs for group in groups] == [(second.id, first.id), (other.id,)]
    group = groups[0]
    assert (group.law, group.golden, group.version, group.verdict) == (LAW, "toy.float32", 1, "diverge")
    assert (group.families, group.pattern, group.formula) == (("expert",), "uniform", "w[r,m] = ep")
    assert (group.count, group.of) == (2, 2)
    assert group.layouts == ("dp2.ep2.accum2", "dp4.ep2.accum2")
    assert group.strategies == ("deepspeed-zero2", "zero1")
    assert group.known_faults[0] in {fault.title for fault in load_catalogue()}
    assert (group.oldest, group.owner) == (first.posted_at, "ci-2")
    assert "too large by a factor of ep" in group.sentence


def test_only_the_assay_against_what_is_approved_now_counts(approved: Bench):
    run = post(approved)
    assert len(approved.reviews.inbox("default")) == 1
    approved.approve(approved.golden(noise=1e-6))
    assert approved.reviews.inbox("default") == []
    approved.assays.judge(approved.assays.question(run), wait_s=60)
    assert [(group.version, group.runs) for group in approved.reviews.inbox("default")] == [(2, (run.id,))]


def test_other_projects_are_not_seen(approved: Bench):
    post(approved)
    assert approved.reviews.inbox("other") == []
    assert len(approved.reviews.inbox("*")) == 1


def test_decided_runs_leave_and_come_back_when_the_decision_ends(approved: Bench):
    one, two = post(approved), post(approved, seed=5)
    rejected = approved.reviews.reject(one, law=LAW, reason="mend it", who="ada")
    assert [group.runs for group in approved.reviews.inbox("default")] == [(two.id,)]
    approved.reviews.withdraw(rejected.number, "ada")
    assert [group.runs for group in approved.reviews.inbox("default")] == [(two.id, one.id)]
    accepted = approved.reviews.accept(one, law=LAW, reason="known", expires_at=soon(), who="ada")
    assert approved.reviews.inbox("default") == []
    approved.reviews.withdraw(accepted.number, "ada")
    assert len(approved.reviews.inbox("default")) == 1


def test_accepted_parameters_do_not_hide_others(approved: Bench):
    run = post(approved)
    approved.reviews.accept(run, law=LAW, parameters=["expert.0.weight"], reason="known", expires_at=soon(), who="ada")
    assert len(approved.reviews.inbox("default")) == 1


def test_run_of_another_framework_is_not_hidden(approved: Bench):
    run = post(approved)
    foreign = post(approved, seed=6, framework="deepspeed")
    approved.reviews.accept(run, law=LAW, reason="known", expires_at=soon(), who="ada")
    assert [group.runs for group in approved.reviews.inbox("default")] == [(foreign.id,)]


def test_verdict_without_a_law_is_a_group_too(approved: Bench):
    run = post(approved, missing=("dense.0.weight",), weights={})
    fits = make_record(approved.toy, layout=LAYOUT)
    wide = post(approved, record=replace(fits, header=replace(fits.header, layout=Layout(dp=16))))
    groups: list[Group] = approved.reviews.inbox("default")
    assert {(group.pattern, group.runs) for group in groups} == {("missing", (run.id,)), ("incomparable", (wide.id,))}
    beyond = next(group for group in groups if group.pattern == "incomparable")
    assert (beyond.law, beyond.families, beyond.formula) == ("verdict:incomparable", (), "")
    approved.reviews.reject(wide, law=beyond.law, reason="too wide", who="ada")
    assert [group.pattern for group in approved.reviews.inbox("default")] == ["missing"]


def test_thousands_of_runs_take_as_many_queries_as_one(approved: Bench):
    queries: list[str] = []

    @event.listens_for(approved.database.engine, "before_cursor_execute")
    def note(_connection: object, _cursor: object, statement: str, *_: object) -> None:
        queries.append(statement)

    run = post(approved)
    queries.clear()
    approved.reviews.inbox("default")
    for_one = len(queries)
    _copy(approved, run, MANY)
    queries.clear()
    started = time.monotonic()
    groups = approved.reviews.inbox("default")
    assert time.monotonic() - started < 20
    assert len(queries) == for_one <= 8
    assert sum(len(group.runs) for group in groups) == MANY + 1
    assert len(groups) == 5


def _copy(bench: Bench, run: Run, times: int) -> None:
    """Adds that many runs like it with an assay each, of four other laws."""
    with bench.database.write() as session:
        known = session.get(RunRow, run.number)
        assay = session.query(AssayRow).filter(AssayRow.run == run.id).one()
        columns = {column.name: getattr(known, column.key) for column in RunRow.__table__.columns}
        for number in range(times):
            changed = {"id": f"copy-{number}", "digest": f"sha256:{number}", "layout": LAYOUT, "number": None}
            changed["layout"] = f"dp{number % 7 + 1}"
            session.add(RunRow(**(columns | changed)))
            session.add(
                AssayRow(
                    id=f"assay-{number}",
                    project=run.project,
                    run=f"copy-{number}",
                    golden=assay.golden,
                    version=assay.version,
                    verdict="diverge",
                    sentence="diverge",
                    document=zlib.compress(b"{}"),
                    computed_at=assay.computed_at,
                )
            )
        session.flush()
        for number in range(times):
            session.add(
                FindingRow(
                    assay=f"assay-{number}",
                    position=0,
                    law=f"law-{number % 4}",
                    families=["expert"],
                    pattern="uniform",
                    formula=f"w[r,m] = {number % 4}",
                    count=2,
                    of=2,
                    known_faults=[],
                    parameters=["expert.0.weight"] * 100,
                )
            )
