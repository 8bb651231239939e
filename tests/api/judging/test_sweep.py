"""What is done in the background, and that it comes to an end."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from builders import make_golden, make_record
from gradassay.api.judging.sweep import Sweep
from gradassay.api.runs.run import Run
from gradassay.goldens.errors import StoreError
from judged import LAYOUT, Bench

DEADLINE_S = 60


def sweep(bench: Bench, *, every_s: float = 3600) -> Sweep:
    return Sweep(
        bench.database, bench.store, runs=bench.runs, ledger=bench.ledger, assays=bench.assays, every_s=every_s
    )


@contextmanager
def sweeping(bench: Bench, *, every_s: float = 3600) -> Iterator[Sweep]:
    """A sweep that runs."""
    running = sweep(bench, every_s=every_s)
    running.start()
    try:
        yield running
    finally:
        running.stop()


def eventually(true: Callable[[], object]) -> None:
    """Waits until it holds."""
    until = time.monotonic() + DEADLINE_S
    while not true():
        assert time.monotonic() < until, "never came true"
        time.sleep(0.02)


def is_judged(bench: Bench, run: Run) -> bool:
    return bool(bench.assays.known(run))


def test_one_pass_judges_every_run_and_finds_every_drift(bench: Bench):
    bench.approve(bench.golden())
    waiting = bench.golden(noise=4e-8)
    runs = [bench.post(seed=seed) for seed in range(40)]
    sweep(bench).once()
    assert all(is_judged(bench, run) for run in runs)
    assert bench.ledger.version("toy.float32", waiting).drift["kind"] == "rounding"


def test_posted_run_is_judged_soon_and_not_after_the_period(bench: Bench):
    with sweeping(bench):
        bench.approve(bench.golden())
        run = bench.post()
        bench.assays.nudge()
        eventually(lambda: is_judged(bench, run))
        second = bench.golden(noise=1e-6)
        bench.approve(second)
        bench.assays.nudge()
        eventually(lambda: len(bench.assays.known(run)) == 2)


def test_what_the_command_line_left_in_the_store_is_adopted(bench: Bench, tmp_path: Path):
    make_golden(bench.toy).write(tmp_path / "golden.safetensors")
    name = bench.store.put_golden(tmp_path / "golden.safetensors").name
    bench.store.approve(name, 1, who="ada", why="because")
    make_record(bench.toy, layout=LAYOUT).write(tmp_path / "record.safetensors")
    stored = bench.store.put_record(tmp_path / "record.safetensors")
    with sweeping(bench, every_s=0.1):
        eventually(lambda: bench.runs.page("*").items and is_judged(bench, bench.runs.page("*").items[0]))
    (run,) = bench.runs.page("*").items
    assert (run.project, run.stored, run.posted_by) == ("default", stored.id, "store")


def test_run_that_cannot_be_judged_keeps_no_other_from_it(bench: Bench):
    bench.approve(bench.golden())
    broken, fine = bench.post(), bench.post(seed=8)
    content = bench.runs.path(broken).read_bytes()
    bench.runs.path(broken).write_bytes(b"damaged")
    path = bench.store.folder / "records" / f"{broken.digest.removeprefix('sha256:')}.safetensors"
    swept = sweep(bench)
    swept.once()
    assert (is_judged(bench, broken), is_judged(bench, fine)) == (False, True)
    path.write_bytes(content)
    swept.once()
    assert is_judged(bench, broken)


def test_failure_of_a_step_is_survived(bench: Bench, monkeypatch: pytest.MonkeyPatch):
    bench.approve(bench.golden())
    run = bench.post()

    def fail(*_: object) -> None:
        raise StoreError("the store is away")

    monkeypatch.setattr(type(bench.store), "remove_abandoned", fail)
    monkeypatch.setattr(type(bench.ledger), "reconcile", fail)
    monkeypatch.setattr(type(bench.runs), "adopt", fail)
    sweep(bench).once()
    assert is_judged(bench, run)


def test_files_of_a_writer_that_died_are_removed_and_those_of_a_living_one_are_not(bench: Bench):
    bench.post()
    records = bench.store.folder / "records"
    abandoned = records / ".incoming.dead.safetensors"
    abandoned.write_bytes(b"half")
    partial = records / ".name.json.dead.partial"
    partial.write_bytes(b"half")
    sweep(bench).once()
    assert not abandoned.exists()
    assert not partial.exists()
    assert len(bench.store.records()) == 1


def test_stopping_does_not_wait_for_the_period(bench: Bench):
    started = time.monotonic()
    with sweeping(bench):
        pass
    assert time.monotonic() - started < DEADLINE_S


def test_version_whose_drift_cannot_be_found_keeps_no_other_from_it(bench: Bench):
    bench.approve(bench.golden())
    broken, fine = bench.golden(noise=4e-8), bench.golden(noise=5e-8)
    bench.store.golden_path("toy.float32", broken).write_bytes(b"damaged")
    sweep(bench).once()
    assert bench.ledger.version("toy.float32", broken).drift is None
    assert bench.ledger.version("toy.float32", fine).drift["against"] == 1
