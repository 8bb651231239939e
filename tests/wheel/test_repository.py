"""A repository of somebody else that depends on the wheel: a test file of fifteen lines, run by pytest."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

import pytest

from wheelhouse import Home, Ran

pytestmark = [pytest.mark.wheel, pytest.mark.dist, pytest.mark.frameworks]

TESTS = """\
import pytest


@pytest.mark.gradassay(problem="dense-tiny", strategy="ddp", layouts=["dp2.accum3"])
def test_ddp():
    pass


@pytest.mark.gradassay(problem="dense-tiny", strategy="fsdp2", layouts=["dp2.accum3"])
def test_fsdp2():
    pass


@pytest.mark.gradassay(problem="dense-tiny", framework="deepspeed==0.19.8", layouts=["dp2.accum3"])
def test_deepspeed(gradassay): assert gradassay.assay.verdict == "agree"
"""

KILLED = '''\
import os
import signal
import threading

import psutil
import pytest


@pytest.fixture
def dies():
    """Kills this process as soon as the ranks of its cell run: the fork server and both of them are there."""

    def watch():
        while len(psutil.Process().children(recursive=True)) < 3:
            threading.Event().wait(0.01)
        os.kill(os.getpid(), signal.SIGKILL)

    threading.Thread(target=watch, daemon=True).start()
'''


@dataclass(frozen=True, slots=True, kw_only=True)
class Repository:
    """A folder under git with tests in it, and the environment that they run in."""

    folder: Path
    home: Home

    def pytest(self, *arguments: str) -> Ran:
        """Runs its tests against the goldens that it holds."""
        options = ("--golden-store", "goldens", "--golden-report", "report", "-p", "no:cacheprovider", "-ra")
        return self.home.run("pytest", *options, *arguments, cwd=self.folder)

    def outcomes(self) -> dict[str, str]:
        """How every test ended, by its name without parameters, as junit.xml of the report tells."""
        found: dict[str, str] = {}
        for case in ElementTree.parse(self.folder / "report" / "junit.xml").iter("testcase"):
            name = str(case.get("name")).partition("[")[0].rpartition("::")[2]
            found[name] = next((child.tag for child in case if child.tag in ("failure", "error", "skipped")), "passed")
        return found


@pytest.fixture(scope="session")
def goldens(training: Home, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store in a folder with an approved golden of dense-tiny, made by the installed package."""
    folder = tmp_path_factory.mktemp("goldens")
    for command in (
        ("golden", "build", "dense-tiny"),
        ("golden", "approve", "dense-tiny.float32", "1", "--reason", "first golden"),
    ):
        done = training.run("gradassay", "--store", "dir:goldens", *command, cwd=folder)
        assert done.code == 0, done.err
    return folder / "goldens"


@pytest.fixture
def repository(training: Home, goldens: Path, tmp_path: Path) -> Repository:
    subprocess.run(["git", "init", "--quiet", tmp_path], check=True)
    (tmp_path / "goldens").symlink_to(goldens)
    (tmp_path / "test_gradients.py").write_text(TESTS)
    return Repository(folder=tmp_path, home=training)


def test_fifteen_lines_pass(repository: Repository) -> None:
    assert len(TESTS.splitlines()) == 15
    ran = repository.pytest()

    assert ran.code == 0, ran.out + ran.err
    assert "3 passed" in ran.out
    assert "gradassay: store" in ran.out
    assert repository.outcomes() == {"test_ddp": "passed", "test_fsdp2": "passed", "test_deepspeed": "passed"}


def test_an_injected_fault_fails_by_its_law(repository: Repository) -> None:
    faulty = TESTS.replace('strategy="ddp",', 'strategy="ddp", fault="megatron-lm-3023",')
    (repository.folder / "test_gradients.py").write_text(faulty)
    ran = repository.pytest("-k", "ddp")

    assert ran.code == 1, ran.out + ran.err
    assert "w[r,m] = dp**(m-M+2)" in ran.out
    assert "gradassay record dense-tiny" in ran.out
    assert "Traceback" not in ran.out
    assert repository.outcomes() == {"test_ddp": "failure"}


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_two_workers_come_to_the_same(repository: Repository) -> None:
    faulty = TESTS.replace('strategy="fsdp2",', 'strategy="fsdp2", fault="last-only",')
    (repository.folder / "test_gradients.py").write_text(faulty)
    ran = repository.pytest("-n", "2")

    assert ran.code == 1, ran.out + ran.err
    assert "[m = M-1]" in ran.out
    assert repository.outcomes() == {"test_ddp": "passed", "test_fsdp2": "failure", "test_deepspeed": "passed"}


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_killed_worker_is_an_error_of_its_cell_and_the_rest_are_right(repository: Repository) -> None:
    (repository.folder / "conftest.py").write_text(KILLED)
    killed = TESTS.replace("def test_ddp():", "def test_ddp(dies):")
    (repository.folder / "test_gradients.py").write_text(killed)
    ran = repository.pytest("-n", "2")

    assert ran.code == 1, ran.out + ran.err
    assert repository.outcomes() == {"test_ddp": "error", "test_fsdp2": "passed", "test_deepspeed": "passed"}
