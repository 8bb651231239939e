"""Assays: computed once, whoever asks, and remembered."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from builders import Toy, make_golden, make_record, make_toy
from gradassay.api.database.database import Database
from gradassay.api.database.migrate import upgrade
from gradassay.api.database.tables import AssayRow, ClaimRow, FindingRow
from gradassay.api.judging import assays as module
from gradassay.api.judging.claims import Claims
from gradassay.api.judging.judged import Judged, Question
from gradassay.goldens.assay.compare import assay_record
from gradassay.goldens.errors import NoGolden, NotFound, StoreError
from gradassay.goldens.golden import read_golden
from gradassay.goldens.layout import Layout
from gradassay.goldens.record import read_record
from gradassay.goldens.reference import GoldenReference
from gradassay.goldens.report.json import to_json
from gradassay.goldens.store.directory import DirectoryStore
from judged import Bench, caller


@pytest.fixture
def computed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The ids of questions that were computed, each as often as it was."""
    ids: list[str] = []
    real = module.compute

    def counting(question: Question, *parts: object) -> object:
        ids.append(question.id)
        return real(question, *parts)

    monkeypatch.setattr(module, "compute", counting)
    return ids


@pytest.fixture
def approved(bench: Bench) -> Bench:
    """The bench with an approved golden."""
    bench.approve(bench.golden())
    return bench


def judge(bench: Bench, question: Question) -> Judged:
    judged = bench.assays.judge(question, wait_s=60)
    assert judged is not None
    return judged


def test_answer_is_the_assay_and_is_computed_once(approved: Bench, computed: list[str]):
    run = approved.post()
    question = approved.assays.question(run)
    judged = judge(approved, question)
    record = read_record(approved.runs.path(run))
    golden = read_golden(approved.store.golden_path("toy.float32", 1))
    expected = to_json(assay_record(record, golden))
    assert {**judged.document, "a": {}, "b": {}} == {**expected, "a": {}, "b": {}}
    assert (judged.verdict, judged.golden, judged.version, judged.run) == ("diverge", "toy.float32", 1, run.id)
    assert judged.choice == question.choice
    assert judge(approved, question) == judged
    assert computed == [question.id]
    assert approved.assays.known(run) == [judged.chosen(None)]
    with approved.database.read() as session:
        finding = session.query(FindingRow).one()
        assert (finding.families, finding.pattern, finding.count, finding.of) == (["expert"], "uniform", 2, 2)
        assert finding.known_faults
        assert session.query(ClaimRow).count() == 0


def test_identity_depends_on_contents_names_project_and_release(approved: Bench, monkeypatch: pytest.MonkeyPatch):
    run = approved.post()
    question = approved.assays.question(run)
    assert approved.assays.question(run).id == approved.assays.question(run, "v1").id == question.id
    approved.golden(noise=1e-6)
    other = approved.post(seed=5)
    ids = {question.id, approved.assays.question(run, "v2").id, approved.assays.question(other).id}
    ids.add(approved.assays.question_between(run, other).id)
    ids.add(approved.assays.question_between(other, run).id)
    monkeypatch.setattr("gradassay.api.judging.judged.version", lambda name: "99")
    ids.add(approved.assays.question(run).id)
    assert len(ids) == 6


def test_no_golden_is_never_a_pass(bench: Bench):
    run = bench.post()
    with pytest.raises(NoGolden, match=r"there is no golden toy\.float32"):
        bench.assays.question(run)
    bench.golden()
    with pytest.raises(NoGolden) as refused:
        bench.assays.question(run)
    assert refused.value.facts["skipped"] == "v1: proposed, not approved"
    bench.approve(1)
    assert bench.assays.question(run).version == 1
    with pytest.raises(NotFound, match="has no v2"):
        bench.assays.question(run, "v2")


def test_golden_of_another_project_is_none(bench: Bench):
    bench.approve(bench.golden(project="other"))
    ours, theirs = bench.post(), bench.post(project="other")
    assert bench.assays.question(theirs).version == 1
    with pytest.raises(NoGolden):
        bench.assays.question(ours)
    with pytest.raises(NoGolden):
        bench.assays.literally(ours, GoldenReference(name="toy.float32", version=1))
    with pytest.raises(NotFound):
        bench.assays.question_between(ours, theirs)


def test_run_of_an_older_problem_keeps_its_golden(approved: Bench):
    changed = make_toy(families={"dense": [(24, 16)], "expert": [(40, 30), (40, 30)]}, units=8, seed=7)
    approved.approve(approved.golden(make_golden(changed)))
    old, new = approved.post(), approved.post(make_record(changed, layout=Layout(dp=2)))
    assert (approved.assays.question(old).version, approved.assays.question(new).version) == (1, 2)
    literal = approved.assays.literally(old, GoldenReference(name="toy.float32", version=None))
    assert judge(approved, literal).verdict == "incomparable"
    assert {question.version for question in approved.assays.unjudged(limit=10)} == {1, 2}


def test_two_runs_are_compared(approved: Bench):
    a, b = approved.post(weights={}), approved.post()
    judged = approved.assays.compare(a, b)
    assert (judged.verdict, judged.run, judged.other_run, judged.golden) == ("diverge", b.id, a.id, None)
    assert judged.document["a"]["ref"] == f"run:{a.id}"
    assert approved.assays.find(judged.id, caller()) == judged
    for unknown in ("0" * 32, "nonsense", "\0"):
        with pytest.raises(NotFound):
            approved.assays.find(unknown, caller())
    with pytest.raises(NotFound):
        approved.assays.find(judged.id, caller("other"))


def test_many_threads_compute_once(approved: Bench, computed: list[str]):
    question = approved.assays.question(approved.post())
    with ThreadPoolExecutor(16) as pool:
        answers = list(pool.map(lambda _: judge(approved, question), range(16)))
    assert all(answer == answers[0] for answer in answers)
    assert computed == [question.id]


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.services)])
def replicas(request: pytest.FixtureRequest, tmp_path: Path, toy: Toy) -> Iterator[list[Bench]]:
    """Three replicas over one database and store, each with connections and threads of its own."""
    address = f"sqlite:///{tmp_path}/shared.db"
    if request.param == "postgres":
        address = str(request.getfixturevalue("postgres_url"))
    databases = [Database(address) for _ in range(3)]
    upgrade(databases[0])
    made = []
    for number, database in enumerate(databases):
        folder = tmp_path / str(number)
        folder.mkdir()
        made.append(Bench.open(database, DirectoryStore(tmp_path / "store"), folder=folder, toy=toy))
    yield made
    for replica in made:
        replica.assays.close()
        replica.database.close()


def test_replicas_compute_each_assay_once(replicas: list[Bench], computed: list[str]):
    first = replicas[0]
    first.approve(first.golden())
    runs = [first.post(seed=seed) for seed in range(6)]
    barrier = threading.Barrier(len(replicas) * 4)

    def ask(number: int) -> list[Judged]:
        replica = replicas[number % len(replicas)]
        barrier.wait()
        order = runs[number % 6 :] + runs[: number % 6]
        return [judge(replica, replica.assays.question(run)) for run in order]

    with ThreadPoolExecutor(barrier.parties) as pool:
        answers = [judged for judgeds in pool.map(ask, range(barrier.parties)) for judged in judgeds]
    assert len({judged.id for judged in answers}) == len(computed) == len(set(computed)) == 6
    with first.database.read() as session:
        assert session.query(AssayRow).count() == session.query(FindingRow).count() == 6
        assert session.query(ClaimRow).count() == 0


def test_replicas_that_post_the_same_record_have_one_run(replicas: list[Bench]):
    barrier = threading.Barrier(len(replicas))

    def post(replica: Bench) -> str:
        barrier.wait()
        return replica.post().id

    with ThreadPoolExecutor(len(replicas)) as pool:
        ids = set(pool.map(post, replicas))
    assert len(ids) == 1
    assert len(replicas[0].runs.page("*").items) == 1


def test_what_another_replica_computes_is_waited_for(replicas: list[Bench], computed: list[str]):
    one, two = replicas[:2]
    one.approve(one.golden())
    question = one.assays.question(one.post())
    with Claims(two.database, "two").held(question.id) as mine:
        assert mine
        assert one.assays.judge(question, wait_s=0.2) is None
        waiting = ThreadPoolExecutor(1).submit(judge, one, question)
        assert not computed
    assert waiting.result(60).verdict == "diverge"
    assert computed == [question.id]


def test_claim_of_a_replica_that_died_is_taken_over(replicas: list[Bench], computed: list[str]):
    one = replicas[0]
    one.approve(one.golden())
    question = one.assays.question(one.post())
    dead = Claims(replicas[1].database, "dead", lease_s=0.5)
    assert dead._take(question.id)
    assert one.assays.judge(question, wait_s=0) is None
    assert judge(one, question).verdict == "diverge"
    assert computed == [question.id]


def test_claim_is_renewed_while_it_is_held(replicas: list[Bench]):
    one, two = (Claims(replica.database, str(number), lease_s=0.3) for number, replica in enumerate(replicas[:2]))
    with one.held("assay") as mine:
        assert mine
        lapsed = threading.Event()
        for _ in range(12):
            with two.held("assay") as theirs:
                assert not theirs
            lapsed.wait(0.1)
    with two.held("assay") as theirs:
        assert theirs


def test_waiting_holds_no_thread_and_ends_in_time(approved: Bench):
    questions = [approved.assays.question(approved.post(seed=seed)) for seed in range(3)]

    async def ask() -> list[Judged | None]:
        return await asyncio.gather(
            *(approved.assays.judge_soon(question, wait_s=wait) for question in questions for wait in (0, 60, 60))
        )

    answers = asyncio.run(ask())
    assert [answer is None for answer in answers] == [True, False, False] * 3


def test_failure_reaches_everybody_and_leaves_no_claim(approved: Bench):
    run = approved.post()
    question = approved.assays.question(run)
    path: Path = approved.runs.path(run)
    content = path.read_bytes()
    path.write_bytes(b"damaged")
    for _ in range(2):
        with pytest.raises(StoreError, match="damaged"):
            judge(approved, question)
    with approved.database.read() as session:
        assert session.query(ClaimRow).count() == 0
    path.write_bytes(content)
    assert judge(approved, question).verdict == "diverge"


def test_unjudged_runs_are_found_newest_first(approved: Bench, make_toy: Callable[..., Toy]):
    approved.post(make_record(make_toy(name="unknown", units=8), layout=Layout(dp=2)))
    runs = [approved.post(seed=seed) for seed in range(4)]
    judge(approved, approved.assays.question(runs[2]))
    found = approved.assays.unjudged(limit=10)
    assert [question.run.id for question in found] == [runs[index].id for index in (3, 1, 0)]
    assert [question.id for question in found] == [approved.assays.question(question.run).id for question in found]
    assert len(approved.assays.unjudged(limit=2)) == 2
    approved.approve(approved.golden(noise=1e-6))
    assert len(approved.assays.unjudged(limit=10)) == 4
