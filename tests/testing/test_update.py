"""`pytest --golden-update`, interrupted and killed, twice, in parallel: the store is whole and no session passes."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import psutil
import pytest

import own_problems
import served
from gradassay.client.client import ServiceClient
from gradassay.client.store import ServiceStore
from gradassay.goldens.golden import read_golden
from gradassay.goldens.store.keeper import Keeper
from gradassay.goldens.store.open import open_store

pytestmark = pytest.mark.dist

DEADLINE_S = 240.0
TESTS = """
import pytest


@pytest.mark.gradassay(problem="own:small", strategy="ddp", layouts=["dp2", "dp2.accum2"])
def test_small(): ...
"""
NAME = "small.float32"


@dataclass(frozen=True, slots=True, kw_only=True)
class Goldens:
    """A store, and how sessions name it. variables: of their environment."""

    store: Keeper
    address: str
    variables: Mapping[str, str] = field(default_factory=dict)

    def whole(self) -> list[int]:
        """The versions that it holds, once each has been read and found not approved."""
        versions = self.store.goldens(NAME)
        for version in versions:
            assert version.channels == ()
            assert read_golden(self.store.golden_path(NAME, version.version)).header.problem.name == "small"
        return [version.version for version in versions]


class Sessions:
    """pytest in processes of their own, in a folder with a test of a problem of one's own."""

    def __init__(self, here: Path) -> None:
        self.here = here
        shutil.copyfile(own_problems.__file__, here / "own.py")
        (here / "test_own.py").write_text(TESTS)
        self.started: list[subprocess.Popen[str]] = []

    def start(self, goldens: Goldens, *arguments: str) -> subprocess.Popen[str]:
        """A session whose report goes to a folder named by its number, from 1."""
        # Rewriting the assertions of every module of ours takes seconds where Python keeps no bytecode.
        command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--assert", "plain", "-q"]
        command += ["--golden-store", goldens.address]
        command += ["--golden-report", str(len(self.started) + 1), *arguments]
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("GRADASSAY_", "PYTEST_"))}
        process = subprocess.Popen(
            command,
            cwd=self.here,
            env=kept | dict(goldens.variables),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
            # Tests that run in the background of a shell ignore interrupts, and what they start would as well.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )
        self.started.append(process)
        return process

    def run(self, goldens: Goldens, *arguments: str) -> tuple[int, str]:
        """Its exit code and what it printed."""
        return self.end(self.start(goldens, *arguments))

    def end(self, process: subprocess.Popen[str]) -> tuple[int, str]:
        """The same, of a session that runs."""
        out, _ = process.communicate(timeout=DEADLINE_S)
        return process.returncode, out

    def until_building(self, process: subprocess.Popen[str]) -> None:
        """Waits until the newest session has run some of the references of the golden."""
        folder = self.here / str(len(self.started))
        give_up = time.monotonic() + DEADLINE_S
        while not list(folder.glob(".parts/*/candidates/.building-*/*.safetensors")):
            assert time.monotonic() < give_up
            assert process.poll() is None, process.communicate()[0]
            time.sleep(0.002)

    def nobody_is_left(self) -> None:
        """Waits until no worker, no rank and no fork server of any session lives."""
        give_up = time.monotonic() + DEADLINE_S
        while left := [process for process in psutil.process_iter() if self._is_ours(process)]:
            assert time.monotonic() < give_up, left
            time.sleep(0.05)

    def _is_ours(self, process: psutil.Process) -> bool:
        try:
            return Path(process.cwd()) == self.here and process.status() != psutil.STATUS_ZOMBIE
        except psutil.Error:
            return False


@pytest.fixture
def sessions(tmp_path: Path) -> Iterator[Sessions]:
    here = tmp_path / "here"
    here.mkdir()
    running = Sessions(here)
    yield running
    for process in running.started:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


@pytest.fixture
def directory(tmp_path: Path) -> Goldens:
    return Goldens(store=open_store(f"dir:{tmp_path}/store"), address=f"dir:{tmp_path}/store")


@pytest.fixture
def goldens(request: pytest.FixtureRequest, tmp_path: Path, directory: Goldens) -> Iterator[Goldens]:
    """A store of this kind."""
    if request.param == "directory":
        yield directory
    elif request.param == "mlflow":
        address = f"sqlite:///{tmp_path}/mlflow.db"
        yield Goldens(store=open_store(address), address=address)
    else:
        with served.serving(tmp_path, uploads=tmp_path, max_upload_bytes=2**26) as service:
            token = service.client.headers["Authorization"].removeprefix("Bearer ")
            with ServiceClient(service.url, token=token, retry_s=5, say=print) as client:
                store = ServiceStore(client, cache=tmp_path / "cache")
                yield Goldens(store=store, address=service.url, variables={"GRADASSAY_TOKEN": token})


def test_of_two_at_once_one_is_killed(sessions: Sessions, directory: Goldens):
    other = sessions.start(directory, "--golden-update")
    killed = sessions.start(directory, "--golden-update")
    sessions.until_building(killed)
    killed.kill()
    assert sessions.end(killed)[0] == -signal.SIGKILL

    code, out = sessions.end(other)
    assert code == 1, out
    assert "2 failed" in out
    assert f"golden approve {NAME} v1" in out
    assert "Traceback" not in out
    assert directory.whole() == [1]
    sessions.nobody_is_left()


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize(
    ("goldens", "sent", "workers"),
    [
        ("directory", signal.SIGINT, ("-n", "2")),
        ("directory", signal.SIGKILL, ("-n", "2")),
        ("mlflow", signal.SIGKILL, ("-n", "2")),
        ("mlflow", signal.SIGINT, ()),
        ("service", signal.SIGKILL, ()),
        ("service", signal.SIGINT, ("-n", "2")),
    ],
    indirect=["goldens"],
)
def test_every_store_is_whole_whatever_ends_a_session(
    sessions: Sessions, goldens: Goldens, sent: signal.Signals, workers: tuple[str, ...]
):
    ended = sessions.start(goldens, "--golden-update", *workers)
    sessions.until_building(ended)
    ended.send_signal(sent)
    code, out = sessions.end(ended)
    assert code == (-signal.SIGKILL if sent is signal.SIGKILL else 2), out
    assert "INTERNALERROR" not in out
    sessions.nobody_is_left()
    assert goldens.whole() == []

    for process in [sessions.start(goldens, "--golden-update", *workers) for _ in range(2)]:
        code, out = sessions.end(process)
        assert code == 1, out
    versions = goldens.whole()
    assert versions in ([1], [1, 2])

    code, out = sessions.run(goldens, "--golden-update", *workers)
    assert code == 1, out
    assert "already holds what was built and is not approved" in out
    assert goldens.whole() == versions
    code, out = sessions.run(goldens, *workers)
    assert code == 1, out
    assert f"golden {NAME}: no version is approved" in out
    sessions.nobody_is_left()


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_once_approved_the_tests_pass_and_an_update_stores_nothing_and_fails(sessions: Sessions, directory: Goldens):
    code, out = sessions.run(directory, "--golden-update")
    assert code == 1, out
    (line,) = (line for line in out.splitlines() if "approve it with: " in line)
    command = line.partition("approve it with: ")[2].split()
    assert command.pop(0) == "gradassay"
    approving = subprocess.run(
        [sys.executable, "-m", "gradassay.cli.main", *command], capture_output=True, text=True, check=False
    )
    assert approving.returncode == 0, approving.stderr

    code, out = sessions.run(directory)
    assert code == 0, out
    code, out = sessions.run(directory, "--golden-update")
    assert code == 1, out
    assert f"{NAME} v1 (approved) already holds what was built; nothing was stored" in out
    assert [version.version for version in directory.store.goldens()] == [1]
