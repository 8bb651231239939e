"""Runs in the database, records in the store, and what becomes of one without the other."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path

import pytest

from builders import Toy, make_record
from gradassay.api.runs.run import run_id
from gradassay.goldens.errors import InvalidFile, NotFound, StoreError, Unreachable, UsageError
from judged import LAYOUT, Bench, caller


def stored(bench: Bench, tmp_path: Path, seed: int = 1) -> str:
    """Puts a record into the store behind the service's back; answers with its digest."""
    path = tmp_path / f"{seed}.safetensors"
    make_record(bench.toy, layout=LAYOUT, seed=seed).write(path)
    return bench.store.put_record(path).digest


def test_run_says_what_its_header_says(bench: Bench):
    run = bench.post(strategy="deepspeed-zero2", framework="deepspeed", dtype="bfloat16")
    assert (run.problem, run.dtype, run.dtype_profile) == ("toy", "bfloat16", "bfloat16/bfloat16/float32")
    assert (run.framework, run.framework_version, run.strategy) == ("deepspeed", "2.13.0", "deepspeed-zero2")
    assert (run.golden, run.layout, run.posted_by) == ("toy.bfloat16", "dp4.ep2.accum2", "ci")
    assert run.header["layout"] == LAYOUT.to_json()
    assert bench.runs.find(run.id, caller()) == bench.runs.of_id(run.id) == run


def test_same_content_is_one_run_a_project_and_one_record(bench: Bench):
    record = make_record(bench.toy, layout=LAYOUT).to_bytes()
    ours, again, theirs = bench.post(record), bench.post(record), bench.post(record, project="other")
    assert ours == again
    assert ours.id != theirs.id
    assert ours.stored == theirs.stored
    assert ours.id == run_id("default", ours.digest) == ours.digest[7:39]
    assert len(bench.store.records()) == 1
    assert [run.project for run in bench.runs.page("*").items] == ["other", "default"]
    assert [run.id for run in bench.runs.page("other").items] == [theirs.id]


def test_digest_finds_the_run_of_the_callers_project(bench: Bench):
    record = make_record(bench.toy, layout=LAYOUT).to_bytes()
    ours, theirs = bench.post(record), bench.post(record, project="other")
    assert bench.runs.find(ours.digest, caller()).id == ours.id
    assert bench.runs.find(f"run:{ours.digest[7:20]}", caller("other")).id == theirs.id
    with pytest.raises(UsageError, match="2 runs begin like this"):
        bench.runs.find(ours.digest, caller("*"))
    alone = bench.post(seed=7)
    for reference in (alone.id, alone.digest, alone.id[:8]):
        with pytest.raises(NotFound):
            bench.runs.find(reference, caller("other"))


def test_records_of_the_command_line_become_runs_once(bench: Bench, tmp_path: Path):
    digests = {stored(bench, tmp_path, seed) for seed in range(3)}
    bench.post(make_record(bench.toy, layout=LAYOUT, seed=2).to_bytes(), project="other")
    assert (bench.runs.adopt(), bench.runs.adopt()) == (2, 0)
    adopted = bench.runs.page("default").items
    assert {run.digest for run in adopted} < digests
    assert {(run.posted_by, run.project) for run in adopted} == {("store", "default")}


def test_record_that_a_dying_service_left_is_nobodys_until_it_is_posted_again(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
):
    record = make_record(bench.toy, layout=LAYOUT).to_bytes()

    def die(*_: object, **__: object) -> None:
        raise SystemExit

    with monkeypatch.context() as patched:
        patched.setattr(type(bench.runs), "_index", die)
        with pytest.raises(SystemExit):
            bench.post(record, project="secret")
    assert len(bench.store.records()) == 1
    assert bench.runs.adopt() == 0
    run = bench.post(record, project="secret")
    assert bench.runs.adopt() == 0
    assert [known.id for known in bench.runs.page("*").items] == [run.id]


def test_refused_record_can_be_posted_when_it_is_mended(bench: Bench):
    record = make_record(bench.toy, layout=LAYOUT).to_bytes()
    with pytest.raises(InvalidFile):
        bench.post(record[:-8] + b"\xff" * 8)
    assert bench.store.records() == []
    assert bench.post(record).digest == f"sha256:{hashlib.sha256(record).hexdigest()}"


def test_unreadable_record_of_the_store_is_left_out(bench: Bench, tmp_path: Path):
    digest = stored(bench, tmp_path)
    bench.store.record_path(digest).write_bytes(b"damaged")
    stored(bench, tmp_path, 2)
    assert (bench.runs.adopt(), bench.runs.adopt()) == (1, 0)


def test_record_that_is_gone_is_the_services_error(bench: Bench):
    run = bench.post()
    bench.runs.path(run).unlink()
    with pytest.raises(StoreError):
        bench.runs.path(run)


def test_pages_are_bounded_and_end(bench: Bench, make_toy: Callable[..., Toy]):
    numbers = [bench.post(seed=seed).number for seed in range(5)]
    page = bench.runs.page("default", limit=3)
    assert ([run.number for run in page.items], page.next) == (numbers[:1:-1], numbers[2])
    page = bench.runs.page("default", before=page.next, limit=3)
    assert ([run.number for run in page.items], page.next) == (numbers[1::-1], None)
    assert bench.runs.page("default", problem="other").items == ()


def test_record_is_adopted_when_a_store_that_was_away_is_back(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    stored(bench, tmp_path)

    def away(*_: object) -> Path:
        raise Unreachable("no answer")

    with monkeypatch.context() as patched:
        patched.setattr(type(bench.store), "record_path", away)
        with pytest.raises(Unreachable):
            bench.runs.adopt()
    assert bench.runs.adopt() == 1
