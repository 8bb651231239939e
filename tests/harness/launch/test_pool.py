"""Real forks: what a healthy cell sees, each way to die, and that nothing is left behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from gradassay.goldens.errors import CellFailed, UsageError
from gradassay.harness.launch import Outcome, Pool, Task
from gradassay.harness.launch.slots import SharedSlots

pytestmark = pytest.mark.dist
Make = Callable[..., Task]
PATIENCE_S, POLL_S = 60.0, 0.01


def _only(pool: Pool, task: Task) -> Outcome:
    [outcome] = list(pool.run([task]))
    return outcome


def test_ranks_meet_and_reduce(warm_pool: Pool, task: Make) -> None:
    outcome = _only(warm_pool, task("reduces"))
    seen = json.loads(outcome.require().read_text())
    assert seen["total"] == 0 + 1 + 2 + 3
    assert seen["threads"] == 1
    assert seen["cell"] == "fake reduces dp4 float32"
    assert (seen["RANK"], seen["WORLD_SIZE"], seen["LOCAL_RANK"], seen["LOCAL_WORLD_SIZE"]) == ("0", "4", "0", "4")


def test_the_server_that_forks_has_one_thread(warm_pool: Pool, task: Make) -> None:
    _only(warm_pool, task("writes_nothing", world=1))
    assert [server.threads for server in warm_pool._servers.values()] == [1]


@pytest.mark.parametrize(
    ("function", "rank", "reason", "trace"),
    [
        ("raises", 1, "ValueError: the wrong gradient on purpose", "in raises"),
        ("exits", 2, "exit code 3", ""),
        ("exits_cleanly", 1, "exit code 0 before its work was done", ""),
        ("is_killed", 1, "killed by SIGKILL", ""),
        ("crashes", 0, "killed by SIGSEGV", "in crashes"),
    ],
)
def test_names_the_rank_that_failed_first(
    warm_pool: Pool,
    task: Make,
    left_over: Callable[[], list[int]],
    tmp_path: Path,
    function: str,
    rank: int,
    reason: str,
    trace: str,
) -> None:
    failed, healthy = list(warm_pool.run([task(function), task("reduces", name="next.json")]))
    assert failed.failure is not None
    assert failed.failure.rank == rank
    assert reason in failed.failure.reason
    assert trace in failed.failure.traceback
    assert f"rank {rank} has met the others" in failed.failure.log
    assert left_over() == []
    assert healthy.path == tmp_path / "next.json"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["next.json"]
    with pytest.raises(CellFailed, match=f"rank {rank}: .*{reason}"):
        failed.require()


def test_ranks_that_refuse_a_cell_are_a_usage_error(
    warm_pool: Pool, task: Make, left_over: Callable[[], list[int]]
) -> None:
    outcome = _only(warm_pool, task("refuses"))
    with pytest.raises(UsageError, match="this release has no option 'banana'") as raised:
        outcome.require()
    assert raised.value.hint == "leave banana out"
    assert left_over() == []


def test_a_hanging_rank_is_found_at_the_deadline(
    warm_pool: Pool, task: Make, left_over: Callable[[], list[int]]
) -> None:
    outcome = _only(warm_pool, task("hangs", deadline_s=3))
    assert outcome.failure is not None
    assert outcome.failure.rank == 1
    assert outcome.failure.reason == "did not finish within 3 s"
    assert "in hangs" in outcome.failure.traceback
    assert "all_reduce" in outcome.failure.traceback
    assert left_over() == []


def test_ranks_that_do_not_heed_sigterm_are_killed(
    warm_pool: Pool, task: Make, left_over: Callable[[], list[int]]
) -> None:
    outcome = _only(warm_pool, task("ignores_sigterm", world=2, deadline_s=1))
    assert outcome.failure is not None
    assert outcome.failure.reason == "did not finish within 1 s"
    assert left_over() == []


def test_a_file_of_a_failed_cell_never_appears(warm_pool: Pool, task: Make, tmp_path: Path) -> None:
    outcome = _only(warm_pool, task("writes_half", world=2))
    assert outcome.failure is not None
    assert outcome.failure.reason == "RuntimeError: after rank 0 had written"
    assert list(tmp_path.iterdir()) == []


def test_a_cell_that_writes_nothing_has_failed(warm_pool: Pool, task: Make) -> None:
    outcome = _only(warm_pool, task("writes_nothing", world=2))
    assert outcome.failure is not None
    assert "none wrote the file" in outcome.failure.reason


def test_killing_the_server_leaves_no_rank(
    warm_pool: Pool, task: Make, pids_folder: Path, left_over: Callable[[], list[int]]
) -> None:
    warm_pool.warm("")
    [server] = warm_pool._servers.values()
    killer = threading.Thread(target=_kill_when_started, args=(server.host.pid, pids_folder, 5))
    killer.start()
    dead, healthy = list(warm_pool.run([task("hangs"), task("reduces", name="next.json")]))
    killer.join()
    assert dead.failure is not None
    assert dead.failure.rank is None
    assert "killed by SIGKILL" in dead.failure.reason
    assert left_over() == []
    assert healthy.path is not None
    [idle] = warm_pool._servers.values()
    idle.host.process.kill()
    idle.host.process.wait()
    assert _only(warm_pool, task("reduces", name="again.json")).path is not None


def test_killing_the_parent_leaves_no_rank_and_no_slot_taken(
    tmp_path: Path, alive: Callable[[int], bool], share: Callable[[], SharedSlots]
) -> None:
    slots = share()
    pids = tmp_path / "pids"
    pids.mkdir()
    script = Path(__file__).parent / "pool_to_kill.py"
    with subprocess.Popen([sys.executable, script, tmp_path], env={**os.environ, "PIDS_FOLDER": str(pids)}) as parent:
        _await(pids, 5)
        assert slots.take(1) is None
        parent.kill()
    started = [int(path.name) for path in pids.iterdir()]
    limit_s = time.monotonic() + PATIENCE_S
    while any(map(alive, started)) and time.monotonic() < limit_s:
        time.sleep(POLL_S)
    assert len(started) == 5
    assert not any(map(alive, started))
    assert slots.take(2) is not None


def _kill_when_started(victim: int, pids: Path, count: int) -> None:
    """Kills the process when `count` more processes have left their ids."""
    _await(pids, count)
    os.kill(victim, signal.SIGKILL)


def _await(pids: Path, count: int) -> None:
    known = len(list(pids.iterdir()))
    limit_s = time.monotonic() + PATIENCE_S
    while len(list(pids.iterdir())) < known + count and time.monotonic() < limit_s:
        time.sleep(POLL_S)


def test_stopping_early_takes_the_ranks_down(
    warm_pool: Pool, task: Make, tmp_path: Path, left_over: Callable[[], list[int]]
) -> None:
    run = warm_pool.run([task("writes_nothing", world=1), task("ignores_sigterm", name="never.json")])
    next(run)
    run.close()
    assert left_over() == []
    assert list(tmp_path.iterdir()) == []


def test_environments_have_their_own_servers(task: Make, tmp_path: Path, fake_environment: type) -> None:
    modules = {"red": (), "blue": ("wave",), "broken": ("no_such_framework",)}

    def surroundings(name: str) -> object:
        return fake_environment(variables={"COLOUR": name}, preload=modules[name])

    tasks = [task("prints_surroundings", framework=name, world=1, name=f"{name}.json") for name in modules]
    with Pool(environments=surroundings, slots=3) as pool:
        pool.warm(*modules)
        outcomes = {outcome.cell.framework: outcome for outcome in pool.run(tasks)}
        pids = [server.host.pid for server in pool._servers.values()]
    seen = {name: json.loads(outcomes[name].require().read_text()) for name in ("red", "blue")}
    assert seen == {"red": {"colour": "red", "preloaded": False}, "blue": {"colour": "blue", "preloaded": True}}
    failure = outcomes["broken"].failure
    assert failure is not None
    assert failure.rank is None
    assert "before it was ready" in failure.reason
    assert "No module named 'no_such_framework'" in failure.traceback
    assert not any(Path(f"/proc/{pid}").exists() for pid in pids)


def test_small_cells_share_the_slots_and_large_ones_run_alone(warm_pool: Pool, task: Make, tmp_path: Path) -> None:
    tasks = [task("reduces", world=world, name=f"{number}.json") for number, world in enumerate((1, 1, 6, 2, 1))]
    assert all(outcome.path is not None for outcome in warm_pool.run(tasks))
    totals = [json.loads((tmp_path / f"{number}.json").read_text())["total"] for number in range(5)]
    assert totals == [0, 0, 15, 1, 0]
