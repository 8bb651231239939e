"""Goldens built anew: once a run, whoever dies meanwhile, and stored whole or not at all."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

import candidate_worker
import own_problems
import served
from builders import Toy
from gradassay.client.client import ServiceClient
from gradassay.client.store import ServiceStore
from gradassay.goldens.container import digest_of_file
from gradassay.goldens.errors import StoreError, UsageError
from gradassay.goldens.golden import Golden, read_golden
from gradassay.goldens.layout import Layout
from gradassay.goldens.record import Record
from gradassay.goldens.store.directory import DirectoryStore
from gradassay.goldens.store.keeper import Keeper
from gradassay.goldens.store.open import open_store
from gradassay.harness.launch import Outcome, Pool, Task
from gradassay.testing import candidates
from gradassay.testing.candidates import approve_command, build_command, publish

DEADLINE_S = 120.0
WATCHED = ("/gradassay/testing/", "/gradassay/goldens/store/", "/gradassay/goldens/atomic.py")


@pytest.fixture
def here(tmp_path: Path) -> Path:
    """A folder with problems of one's own: `own:small` has a golden, `own:none` is too small for one."""
    shutil.copyfile(own_problems.__file__, tmp_path / "own.py")
    return tmp_path


class NoPool(Pool):
    """A pool for those who have nothing to run."""

    def run(self, tasks: Iterable[Task]) -> Iterator[Outcome]:
        """Fails the test."""
        raise AssertionError(f"it was there, and is built again: {tasks}")


class Workers:
    """Processes that ask for one golden in one folder."""

    def __init__(self, here: Path) -> None:
        self.here = here
        self.folder = here / "run"
        self.folder.mkdir()
        self.started: list[subprocess.Popen[str]] = []

    def start(self, problem: str = "own:small") -> subprocess.Popen[str]:
        """Another one."""
        command = [sys.executable, candidate_worker.__file__, str(self.folder), problem]
        process = subprocess.Popen(
            command,
            cwd=self.here,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
            # Tests that run in the background of a shell ignore interrupts, and what they start would as well.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )
        self.started.append(process)
        return process

    def ran(self) -> list[int]:
        """The processes that ran something, in order."""
        told = self.folder / "ran"
        return [int(line) for line in told.read_text().split()] if told.exists() else []

    def until_one_builds(self) -> subprocess.Popen[str]:
        """The one that does, once records of references are there."""
        give_up = time.monotonic() + DEADLINE_S
        while not list(self.folder.glob("candidates/.building-*/*.safetensors")):
            assert time.monotonic() < give_up
            assert any(process.poll() is None for process in self.started), "nobody builds"
            time.sleep(0.002)
        (builder,) = (process for process in self.started if process.pid == self.ran()[-1])
        return builder


@pytest.fixture
def workers(here: Path) -> Iterator[Workers]:
    running = Workers(here)
    yield running
    for process in running.started:
        process.kill()
        process.communicate()


@pytest.mark.dist
def test_a_golden_is_built_once_though_the_first_who_builds_is_killed(workers: Workers):
    workers.start()
    workers.start()
    builder = workers.until_one_builds()
    builder.kill()
    builder.wait()
    (other,) = (process for process in workers.started if process is not builder)
    digest = other.communicate(timeout=DEADLINE_S)[0].strip()

    assert other.returncode == 0
    assert workers.ran() == [builder.pid, other.pid]
    golden = candidates.build("own:small", "float32", workers.folder / "candidates", pool=NoPool())
    assert digest_of_file(golden) == digest

    store = DirectoryStore(workers.here / "store")
    (proposed,) = publish(workers.folder / "candidates", store)
    assert proposed.version.digest == digest
    assert len(store.records()) == len(read_golden(store.golden_path("small.float32", 1)).header.references)
    # What the dead one left half-built is no candidate.
    assert len(list((workers.folder / "candidates").glob(".building-*"))) == 1


@pytest.mark.dist
@pytest.mark.slow
def test_an_interrupted_build_leaves_nothing(workers: Workers):
    process = workers.start()
    workers.until_one_builds()
    process.send_signal(signal.SIGINT)

    assert process.wait(DEADLINE_S) == 130
    assert [path.suffix for path in (workers.folder / "candidates").iterdir()] == [".lock"]
    assert publish(workers.folder / "candidates", DirectoryStore(workers.here / "store")) == ()
    assert not (workers.here / "store").exists()


@pytest.mark.dist
@pytest.mark.slow
def test_built_twice_it_is_the_same_version_and_why_it_cannot_be_built_is_found_out_once(
    here: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(here)
    store = DirectoryStore(here / "store")
    with candidate_worker.TellingPool(here / "ran") as pool:
        for number in (1, 2):
            golden = candidates.build("own:small", "float32", here / f"run{number}", pool=pool)
            (proposed,) = publish(here / f"run{number}", store)
            assert (proposed.version.version, proposed.new) == (1, number == 1)
        stored = store.find_golden("small.float32", 1)
        assert stored.channels == ()
        assert digest_of_file(golden) != stored.digest
        before = (here / "ran").read_text()
        for _ in range(2):
            with pytest.raises(UsageError, match="too few for a noise floor"):
                candidates.build("own:none", "float32", here / "run1", pool=pool)
        assert publish(here / "run1", store)[0].version == stored
        assert len((here / "ran").read_text().split()) <= len(before.split()) + 1


def _put(folder: Path, golden: Golden, record: Record, name: str = "a") -> None:
    """What `build` leaves."""
    (folder / name).mkdir(parents=True)
    golden.write(folder / name / "golden")
    record.write(folder / name / "reference.safetensors")


@pytest.fixture
def folder(
    tmp_path: Path, make_toy: Callable[..., Toy], make_golden: Callable[..., Golden], make_record: Callable[..., Record]
) -> Path:
    """A run's folder with one golden."""
    toy = make_toy()
    _put(tmp_path / "candidates", make_golden(toy), make_record(toy))
    return tmp_path / "candidates"


@pytest.fixture(scope="module", params=["directory", "mlflow", "service"])
def store(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Keeper]:
    """A store of each kind; tests keep apart by the names of their goldens."""
    folder = tmp_path_factory.mktemp("store")
    if request.param == "service":
        with served.serving(folder, uploads=folder, max_upload_bytes=2**26) as service:
            token = service.client.headers["Authorization"].removeprefix("Bearer ")
            with ServiceClient(service.url, token=token, retry_s=5, say=print) as client:
                yield ServiceStore(client, cache=folder / "cache")
        return
    yield open_store(f"dir:{folder}/store" if request.param == "directory" else f"sqlite:///{folder}/mlflow.db")


def test_every_store_holds_a_new_version_once_and_none_is_approved(
    folder: Path, store: Keeper, make_golden: Callable[..., Golden], make_record: Callable[..., Record]
):
    (first,) = publish(folder, store)
    assert first.sentence() == (
        "toy.float32 v1 is stored and not approved; approve it with: "
        "gradassay golden approve toy.float32 v1 --reason WHY"
    )
    again = make_golden()
    again = replace(again, header=replace(again.header, created="2027-01-01T00:00:00Z"))
    _put(folder.parent / "second", again, make_record())
    (second,) = publish(folder.parent / "second", store)
    assert (second.version.version, second.new) == (1, False)
    assert second.sentence(["--store", "dir:a b"]) == (
        "toy.float32 v1 already holds what was built and is not approved; approve it with: "
        "gradassay --store 'dir:a b' golden approve toy.float32 v1 --reason WHY"
    )
    _put(folder.parent / "third", make_golden(noise=1e-6), make_record())
    (third,) = publish(folder.parent / "third", store)
    assert (third.version.version, third.new) == (2, True)
    assert [(version.version, version.channels) for version in store.goldens("toy.float32")] == [(1, ()), (2, ())]
    assert read_golden(store.golden_path("toy.float32", 2)).header.noise == make_golden(noise=1e-6).header.noise


def test_what_is_approved_already_is_not_stored_again(folder: Path, tmp_path: Path, make_golden: Callable[..., Golden]):
    store = DirectoryStore(tmp_path / "store")
    publish(folder, store)
    other = tmp_path / "other"
    make_golden(noise=1e-6).write(other)
    store.put_golden(other)
    store.approve("toy.float32", 1, who="a", why="b")

    (proposed,) = publish(folder, store)
    assert proposed.sentence() == "toy.float32 v1 (approved) already holds what was built; nothing was stored"


def test_a_damaged_version_does_not_hold_what_was_built(
    folder: Path, tmp_path: Path, make_golden: Callable[..., Golden]
):
    store = DirectoryStore(tmp_path / "store")
    publish(folder, store)
    golden = make_golden()
    later = replace(golden, header=replace(golden.header, created="2027-01-01T00:00:00Z"))
    later.write(folder / "a" / "golden")
    store.golden_path("toy.float32", 1).write_bytes(b"damaged")
    (proposed,) = publish(folder, store)
    assert (proposed.version.version, proposed.new) == (2, True)


def test_a_store_that_cannot_be_written_is_said_with_what_it_holds_now(
    folder: Path, tmp_path: Path, make_toy: Callable[..., Toy], make_golden: Callable[..., Golden]
):
    toy = make_toy(name="later")
    (folder / "b").mkdir()
    make_golden(toy).write(folder / "b" / "golden")
    (tmp_path / "store" / "goldens").mkdir(parents=True)
    (tmp_path / "store" / "goldens" / "later.float32").write_bytes(b"in the way")
    store = DirectoryStore(tmp_path / "store")
    with pytest.raises(StoreError, match=r"later\.float32: (.|\n)*stored before that: toy\.float32 v1"):
        publish(folder, store)
    assert [version.name for version in store.goldens("toy.float32")] == ["toy.float32"]


def test_two_runs_that_publish_at_the_same_moment_leave_a_whole_store(
    tmp_path: Path,
    store: Keeper,
    make_toy: Callable[..., Toy],
    make_golden: Callable[..., Golden],
    make_record: Callable[..., Record],
):
    toy = make_toy(name="together")
    golden, folders = make_golden(toy), [tmp_path / f"run{number}" for number in range(4)]
    for number, folder in enumerate(folders, start=1):
        dated = replace(golden, header=replace(golden.header, created=f"2027-01-0{number}T00:00:00Z"))
        _put(folder, dated, make_record(toy))
    with ThreadPoolExecutor(len(folders)) as executor:
        proposed = [item for items in executor.map(lambda one: publish(one, store), folders) for item in items]

    versions = store.goldens("together.float32")
    assert [version.version for version in versions] == list(range(1, len(versions) + 1))
    assert {item.version.version for item in proposed} == {version.version for version in versions}
    for version in versions:
        assert read_golden(store.golden_path(version.name, version.version)).says_the_same(golden)


@pytest.mark.parametrize("step", [7, pytest.param(1, marks=pytest.mark.slow)])
def test_publishing_that_is_killed_at_any_line_leaves_a_whole_store(
    step: int,
    tmp_path: Path,
    make_toy: Callable[..., Toy],
    make_golden: Callable[..., Golden],
    make_record: Callable[..., Record],
):
    toy = make_toy(families={"dense": [(4, 4)]}, units=2)
    folder = tmp_path / "candidates"
    _put(folder, make_golden(toy), make_record(toy, layout=Layout(dp=2)))
    publish(folder, DirectoryStore(tmp_path / "imported"))
    point, survived = 1 - step, False
    while not survived:
        point += step
        store = DirectoryStore(tmp_path / f"store{point}")
        survived = _killed_at(point, lambda store=store: publish(folder, store))  # type: ignore[misc]
        for version in store.goldens():
            assert version.channels == ()
            store.golden_path(version.name, version.version)
        (proposed,) = publish(folder, store)
        assert proposed.version.version == 1
        assert [version.version for version in store.goldens()] == [1]
        assert len(store.records()) == 1
    assert point > 50


def _killed_at(point: int, work: Callable[[], object]) -> bool:
    """Does the work in a process that dies by SIGKILL at the `point`-th different line of what writes; was it done?."""
    child = os.fork()
    if child == 0:
        seen: set[tuple[str, int]] = set()

        def trace(frame: object, event: str, _argument: object) -> object:
            code = frame.f_code  # type: ignore[attr-defined]
            if not any(part in code.co_filename for part in WATCHED):
                return None
            if event == "line":
                seen.add((code.co_filename, frame.f_lineno))  # type: ignore[attr-defined]
                if len(seen) == point:
                    os.kill(os.getpid(), signal.SIGKILL)
            return trace

        sys.settrace(trace)  # type: ignore[arg-type]
        work()
        os._exit(0)
    _, status = os.waitpid(child, 0)
    assert os.WIFEXITED(status) or os.WTERMSIG(status) == signal.SIGKILL
    return os.WIFEXITED(status) and os.WEXITSTATUS(status) == 0


def test_a_golden_that_says_something_else_is_told_apart(
    make_golden: Callable[..., Golden], make_toy: Callable[..., Toy]
):
    golden = make_golden()
    reference = replace(golden.header.references[0], record="sha256:" + "0" * 64)
    dated = replace(golden, header=replace(golden.header, created="later", references=(reference,)))
    assert golden.says_the_same(dated)
    assert not golden.says_the_same(make_golden(noise=1e-6))
    assert not golden.says_the_same(make_golden(make_toy(seed=1)))
    other = replace(golden.bases[1], norm2=golden.bases[1].norm2 + 1e-9)
    assert not golden.says_the_same(replace(golden, bases={1: other}))
    assert not golden.says_the_same(replace(golden, header=replace(golden.header, references=())))


def test_commands_can_be_pasted(folder: Path, tmp_path: Path):
    store = DirectoryStore(tmp_path / "store")
    (proposed,) = publish(folder, store)
    assert build_command("own:small", "bfloat16", ["--store", "dir:a b"]) == (
        "gradassay --store 'dir:a b' golden build own:small --dtype bfloat16"
    )
    command = approve_command(proposed.version, ["--store", str(store)])
    done = subprocess.run(
        [sys.executable, "-m", "gradassay.cli.main", *command.split()[1:]], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert store.find_golden("toy.float32").version == 1


def test_an_unknown_problem_is_said_before_anything_runs(tmp_path: Path):
    with Pool() as pool, pytest.raises(UsageError, match="no problem is called 'nowhere'"):
        candidates.build("nowhere", "float32", tmp_path, pool=pool)
