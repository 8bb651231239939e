"""A worker of pytest-xdist that dies while it runs a cell."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from projects import DEADLINE_S, Project, until

HELD = """
import os
import time
from pathlib import Path

from gradassay.harness import load_problem

HERE = Path(__file__).parent


def problem():
    class Held:
        def __getattr__(self, name):
            if name == "batch":
                (HERE / "ranks" / str(os.getpid())).touch()
                while True:
                    time.sleep(60)
            return getattr(load_problem("moe-tiny"), name)

    return Held()
"""
MORTAL = """
import os
from pathlib import Path

import pytest


@pytest.fixture
def worker():
    (Path(__file__).parent / "worker").write_text(str(os.getpid()))


@pytest.mark.gradassay(problem="held:problem", strategy="ddp", layouts=["dp2"], golden="moe-tiny.float32@approved")
def test_killed(worker):
    pass


@pytest.mark.gradassay(problem="moe-tiny", strategy="ddp", layouts=["dp1", "dp2"])
def test_healthy():
    pass


@pytest.mark.gradassay(problem="moe-tiny", strategy="ddp", layouts=["dp1"], fault="uniform:dense:scale=2")
def test_faulty():
    pass
"""


@pytest.mark.dist
def test_a_killed_worker_is_an_error_of_its_cell_and_of_no_other(
    project: Project, golden_store: Path, alive: Callable[[int], bool]
) -> None:
    ranks = project.folder / "ranks"
    ranks.mkdir()
    project.write(test_mortal=MORTAL, held=HELD)
    command = project.command("--golden-store", golden_store, "--golden-report", "report", "-n", "2")
    with (project.folder / "log").open("wb") as log:
        running = subprocess.Popen(
            command, cwd=project.folder, env=project.environment(), stdout=log, stderr=subprocess.STDOUT
        )
    try:
        until(lambda: len(list(ranks.iterdir())) == 2, running)
        os.kill(int((project.folder / "worker").read_text()), signal.SIGKILL)
        running.wait(DEADLINE_S)
    finally:
        running.kill()
        running.wait()
    said = (project.folder / "log").read_text()
    outcomes = {name.rpartition("::")[2]: case for name, case in project.cases().items()}

    killed = outcomes.pop("test_killed[ddp-dp2]")
    assert killed.outcome == "error", said
    assert "died while it ran this test" in killed.text
    assert {name: case.outcome for name, case in outcomes.items()} == {
        "test_healthy[ddp-dp1]": "passed",
        "test_healthy[ddp-dp2]": "passed",
        "test_faulty[ddp-dp1-uniform:dense:scale=2]": "failure",
    }
    assert running.returncode == 1
    until(lambda: not [path for path in ranks.iterdir() if alive(int(path.name))])
    parts = {
        part["test"].partition("::")[2]: part
        for part in json.loads((project.folder / "report" / "report.json").read_text())["tests"]
    }
    assert set(parts) == {"test_killed[ddp-dp2]", *outcomes}
    assert parts["test_killed[ddp-dp2]"]["exit"] == 4
