"""Fork servers that pools of several processes share."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gradassay.harness.launch import Pool, Task
from gradassay.harness.launch.slots import machine_folder

pytestmark = pytest.mark.dist
Make = Callable[..., Task]
SCRIPT = Path(__file__).parent / "pool_to_kill.py"
PATIENCE_S, POLL_S = 60.0, 0.01


@pytest.fixture(autouse=True)
def own_machine_folder(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path_factory.mktemp("run")))


def _until(condition: Callable[[], bool]) -> None:
    limit_s = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < limit_s
        time.sleep(POLL_S)


def _pid(pool: Pool) -> int:
    [server] = pool._servers.values()
    return server.host.pid


def test_a_server_serves_all_and_ends_with_the_last(
    tmp_path: Path, task: Make, surroundings: Callable[[str], Any], alive: Callable[[int], bool]
) -> None:
    # The other process is killed: its ranks end, and nothing of those who share the server with it.
    pids = tmp_path / "pids"
    pids.mkdir()
    with subprocess.Popen([sys.executable, SCRIPT, tmp_path], env={**os.environ, "PIDS_FOLDER": str(pids)}) as other:
        _until(lambda: len(list(pids.iterdir())) == 5)
        ranks = [int(path.name) for path in pids.iterdir()]
        with Pool(environments=surroundings, slots=8, servers=tmp_path / "servers") as pool:
            [first] = pool.run([task("reduces", name="1.json")])
            assert all(map(alive, ranks))
            other.kill()
            _until(lambda: not any(map(alive, ranks)))
            [second] = pool.run([task("reduces", name="2.json")])
            server = _pid(pool)
            assert str(server) == next((tmp_path / "servers").glob("*.pid")).read_text()
            [third] = pool.run([task("exits", name="3.json")])
        assert first.path is not None
        assert second.path is not None
        assert third.failure is not None
        assert third.failure.rank == 2
    _until(lambda: not alive(server))
    assert list(machine_folder().glob("*.server")) == []


def test_a_pool_that_leaves_takes_its_ranks_along_and_no_others(
    tmp_path: Path, task: Make, surroundings: Callable[[str], Any], alive: Callable[[int], bool]
) -> None:
    folder = tmp_path / "servers"
    with Pool(environments=surroundings, slots=8, servers=folder) as one:
        [outcome] = one.run([task("reduces", name="1.json")])
        with Pool(environments=surroundings, slots=8, servers=folder) as another:
            run = another.run([task("writes_nothing", world=1), task("ignores_sigterm", name="never.json")])
            next(run)
            server = _pid(one)
            assert _pid(another) == server
            children = [int(pid) for pid in Path(f"/proc/{server}/task/{server}/children").read_text().split()]
            assert len(children) == 5
            run.close()
            assert not any(map(alive, children))
        [again] = one.run([task("reduces", name="2.json")])
        assert outcome.path is not None
        assert again.path is not None
        assert _pid(one) == server
        # One that was killed is replaced, though its address is still there.
        os.kill(server, 9)
        _until(lambda: not alive(server))
        [healthy] = one.run([task("reduces", name="3.json")])
        assert healthy.path is not None
        assert _pid(one) != server


def test_everybody_is_told_of_a_server_that_never_gets_ready(
    tmp_path: Path, task: Make, fake_environment: type
) -> None:
    broken = fake_environment(preload=("no_such_framework",))
    pools = [Pool(environments=lambda name: broken, slots=2, servers=tmp_path / "servers") for _ in range(2)]
    for pool in pools:
        pool.warm("")
    for number, pool in enumerate(pools):
        [outcome] = pool.run([task("reduces", name=f"{number}.json")])
        pool.close()
        assert outcome.failure is not None
        assert "before it was ready" in outcome.failure.reason
        assert "No module named 'no_such_framework'" in outcome.failure.traceback
