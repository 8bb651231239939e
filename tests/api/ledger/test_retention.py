"""What is deleted, what never is, and what stays because somebody came to need it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from gradassay.api.database.database import Database
from gradassay.api.database.tables import ClaimRow, ReviewRow
from gradassay.api.ledger.deciding import Decision
from gradassay.api.ledger.ledger import Ledger
from gradassay.api.ledger.retention import Kind, Outcome, Plan, carry_out, plan
from gradassay.api.runs.runs import Runs, announcement
from gradassay.goldens.container import digest_of_file
from gradassay.goldens.errors import NotFound, StoreError
from gradassay.goldens.layout import Layout
from gradassay.goldens.store.directory import DirectoryStore

NAME = "toy.float32"
MONTH = timedelta(days=30)
LATER = datetime.now(UTC) + timedelta(days=60)


@pytest.fixture
def runs(database: Database, store: DirectoryStore) -> Runs:
    return Runs(database, store)


@pytest.fixture
def post_run(runs: Runs, make_record, tmp_path: Path) -> Callable[..., str]:
    """Posts records of the toy; answers with the run's id."""

    def post(seed: int, *, project: str = "default") -> str:
        path = tmp_path / f"record-{seed}.safetensors"
        make_record(layout=Layout(dp=2, accum=2), seed=seed).write(path)
        return runs.post(path, digest_of_file(path), who="ci", project=project)[0].id

    return post


@pytest.fixture
def later(database: Database, store: DirectoryStore) -> Callable[[], Plan]:
    """The plan as it is made in two months from now, of what is older than one."""
    return lambda: plan(database, store, older_than=MONTH, now=LATER)


def refs(items) -> set[str]:
    return {item.ref for item in items}


def done(database: Database, store: DirectoryStore, wanted: Plan) -> list[Outcome]:
    return list(carry_out(database, store, wanted, who="ops"))


def approve(ledger: Ledger, version: int):
    return ledger.decide(NAME, version, Decision.APPROVE, who="ada", why="because")


def test_planning_deletes_nothing_and_says_why_and_how_much(
    ledger: Ledger, store: DirectoryStore, propose, post_run, later
):
    propose(1, 2)
    approve(ledger, 1)
    ledger.decide(NAME, 2, Decision.REJECT, who="bob", why="noisy")
    run = post_run(1)
    planned = later()
    assert refs(planned.items) == {f"run:{run}", f"golden:{NAME}@v2"}
    by_kind = {item.kind: item for item in planned.items}
    assert "rejected by bob" in by_kind[Kind.VERSION].reason
    assert "nobody reviewed it" in by_kind[Kind.RUN].reason
    assert by_kind[Kind.VERSION].size == store.golden_path(NAME, 2).stat().st_size
    assert by_kind[Kind.RUN].size == store.record_path(run[:16]).stat().st_size
    assert planned.size == sum(item.size for item in planned.items)
    assert planned.kept == {"versions that a channel points to, or would again": 1}
    assert (len(ledger.versions(NAME)), len(store.goldens()), len(store.records())) == (2, 2, 1)


def test_what_is_young_stays(database, ledger: Ledger, store: DirectoryStore, propose, post_run):
    propose(1)
    ledger.decide(NAME, 1, Decision.REJECT, who="bob", why="noisy")
    post_run(1)
    planned = plan(database, store, older_than=MONTH)
    assert planned.items == ()
    assert planned.kept == {"versions rejected not long ago": 1, "runs posted not long ago": 1}


def test_what_a_channel_points_to_or_would_again_stays(ledger: Ledger, propose, later):
    propose(1, 2, 3, 4, 5)
    for version in (1, 3):
        approve(ledger, version)
    fourth = approve(ledger, 4)
    ledger.undo(fourth.number, who="ada")
    approve(ledger, 5)
    assert refs(later().items) == {f"golden:{NAME}@v{version}" for version in (2, 4)}
    ledger.decide(NAME, 1, Decision.REJECT, who="bob", why="wrong all along")
    assert f"golden:{NAME}@v1" not in refs(later().items)


def test_what_waits_for_review_stays(ledger: Ledger, two: Ledger, propose, later):
    propose(1, 2, 3)
    assert later().items == ()
    approve(ledger, 2)
    two.decide(NAME, 1, Decision.APPROVE, who="bob", why="first of two")
    assert later().items == ()


def test_what_is_gone_is_gone_and_the_ledger_says_so(
    database, ledger: Ledger, runs: Runs, store: DirectoryStore, propose, post_run, later, write_golden
):
    propose(1, 2)
    approve(ledger, 1)
    ledger.decide(NAME, 2, Decision.REJECT, who="bob", why="noisy")
    run = post_run(1)
    assert [outcome.kept for outcome in done(database, store, later())] == ["", ""]
    with pytest.raises(NotFound):
        ledger.version(NAME, 2)
    with pytest.raises(NotFound):
        runs.of_id(run)
    assert [version.version for version in store.goldens()] == [1]
    assert not store.records()
    deleted = ledger.entries("default").items[0]
    assert (deleted.action, deleted.version, deleted.who) == ("deleted", 2, "ops")
    assert (ledger.adopt(), runs.adopt(), ledger.reconcile()) == (0, 0, [])
    assert done(database, store, later()) == []
    assert ledger.propose(write_golden(2), who="ci", project="default").version == 3
    assert ledger.version(NAME, 3).status == "proposed"


def test_runs_that_were_reviewed_or_are_behind_a_golden_stay(
    database, ledger: Ledger, runs: Runs, store, post_run, later, write_golden, make_golden
):
    reviewed, behind, free = (post_run(seed) for seed in (1, 2, 3))
    path = write_golden(1)
    golden = make_golden()
    record = runs.of_id(behind)
    references = tuple(replace(one, record=record.digest) for one in golden.header.references)
    replace(golden, header=replace(golden.header, references=references)).write(path)
    ledger.propose(path, who="ci", project="default")
    with database.write() as session:
        session.add(review(reviewed))
    planned = later()
    assert refs(planned.items) == {f"run:{free}"}
    assert planned.kept == {
        "versions that wait for review": 1,
        "runs that were reviewed": 1,
        "runs that a golden refers to": 1,
    }
    ledger.decide(NAME, 1, Decision.REJECT, who="bob", why="noisy")
    assert refs(later().items) == {f"run:{free}", f"run:{behind}", f"golden:{NAME}@v1"}


def review(run: str) -> ReviewRow:
    row = {column.name: "" for column in ReviewRow.__table__.columns if column.name not in ("number", "expires_at")}
    given = {"run": run, "project": "default", "law": "l", "parameters": [], "decision": "rejected", "who": "ada"}
    return ReviewRow(**{**row, **given, "at": datetime.now(UTC), "withdrawn_at": None})


def test_what_somebody_came_to_need_meanwhile_is_left(
    database, ledger: Ledger, runs: Runs, store: DirectoryStore, propose, post_run, later
):
    propose(1, 2)
    approve(ledger, 1)
    rejection = ledger.decide(NAME, 2, Decision.REJECT, who="bob", why="noisy")
    run = post_run(1)
    planned = later()
    ledger.undo(rejection.number, who="ada")
    approve(ledger, 2)
    with database.write() as session:
        session.add(review(run))
    outcomes = {outcome.item.ref: outcome.kept for outcome in done(database, store, planned)}
    assert outcomes == {
        f"golden:{NAME}@v2": "that a channel points to, or would again",
        f"run:{run}": "that were reviewed",
    }
    assert store.golden_path(NAME, 2).exists()
    assert runs.path(runs.of_id(run)).exists()


def test_projects_that_posted_the_same_record_share_it(database, runs: Runs, store: DirectoryStore, post_run, later):
    mine, theirs = post_run(1), post_run(1, project="team")
    planned = later()
    with database.write() as session:
        session.add(review(theirs))
    done(database, store, planned)
    with pytest.raises(NotFound):
        runs.of_id(mine)
    assert runs.path(runs.of_id(theirs)).exists()


def test_a_deletion_that_fails_leaves_the_row(database, ledger: Ledger, store: DirectoryStore, propose, later):
    class Stuck(DirectoryStore):
        def delete_golden(self, name: str, version: int) -> None:
            raise StoreError("disconnected")

    propose(1)
    ledger.decide(NAME, 1, Decision.REJECT, who="bob", why="noisy")
    (outcome,) = done(database, Stuck(store.folder), later())
    assert (outcome.kept, type(outcome.error)) == ("disconnected", StoreError)
    assert ledger.version(NAME, 1).status == "rejected"
    assert "deleted" not in [entry.action for entry in ledger.entries("default").items]
    assert [outcome.kept for outcome in done(database, store, later())] == [""]


def test_a_file_that_is_gone_already_does_not_keep_the_row(
    database, ledger: Ledger, runs: Runs, store: DirectoryStore, propose, post_run, later
):
    propose(1)
    ledger.decide(NAME, 1, Decision.REJECT, who="bob", why="noisy")
    post_run(1)
    planned = later()
    store.delete_golden(NAME, 1)
    store.delete_record(store.records()[0].digest)
    assert [outcome.kept for outcome in done(database, store, planned)] == ["", ""]
    assert ledger.goldens("*") == []


def test_record_that_somebody_posts_just_now_stays(database, store: DirectoryStore, post_run, runs: Runs, later):
    run = post_run(1)
    planned = later()
    announced = announcement(runs.of_id(run).digest)
    with database.write() as session:
        session.add(ClaimRow(assay=announced, holder="runs", until=datetime.now(UTC) + timedelta(minutes=1)))
    assert [outcome.kept for outcome in done(database, store, planned)] == ["being posted again just now"]
    with database.write() as session:
        session.get(ClaimRow, announced).until = datetime.now(UTC)
    assert [outcome.kept for outcome in done(database, store, planned)] == [""], "whoever posted it died"
    assert store.records() == []
    with database.read() as session:
        assert session.get(ClaimRow, announced) is None
