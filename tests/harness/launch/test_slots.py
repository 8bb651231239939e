"""Slots of one pool and of all: who waits gets them in order, and who dies gives them back."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gradassay.goldens.errors import UsageError
from gradassay.harness.launch.locks import STALE_S
from gradassay.harness.launch.slots import (
    POLL_S,
    OwnSlots,
    SharedSlots,
    Slot,
    Taken,
    core_slots,
    machine_folder,
    machine_slots,
)

PATIENCE_S = 30.0
USER = Path(__file__).parent / "slot_user.py"
Start = Callable[[], Any]


def _soon(ask: Callable[[], Taken | None]) -> Taken:
    limit_s = time.monotonic() + PATIENCE_S
    while time.monotonic() < limit_s:
        if (taken := ask()) is not None:
            return taken
        time.sleep(POLL_S)
    raise AssertionError("no slots in time")


def _had(taken: Taken | None) -> Taken:
    assert taken is not None
    return taken


def test_a_pool_may_have_slots_for_itself() -> None:
    slots = OwnSlots(3)
    two = _had(slots.take(2))
    assert slots.take(2) is None
    one = _had(slots.take(1))
    two.release()
    assert slots.take(7) is None
    one.release()
    everything = _had(slots.take(7))
    assert slots.take(1) is None
    everything.release()
    assert slots.take(3) is not None


def test_a_cell_gets_all_it_needs_or_nothing(share: Callable[[], SharedSlots]) -> None:
    one, both, another = share(), share(), share()
    taken = _had(one.take(1))
    assert both.take(2) is None
    both.leave()
    # What `both` could not use it did not keep.
    second = _had(another.take(1))
    taken.release()
    second.release()
    assert both.take(2) is not None


def test_more_ranks_than_slots_take_all(share: Callable[[], SharedSlots]) -> None:
    many, one = share(), share()
    taken = _had(many.take(64))
    assert one.take(1) is None
    taken.release()
    assert one.take(1) is not None


def test_processes_share_the_slots(share: Callable[[], SharedSlots], start: Start) -> None:
    ours, theirs = share(), start()
    taken = _had(ours.take(1))
    assert theirs("ask 2") == "none"
    assert share().others() == sorted({os.getpid()})
    taken.release()
    assert theirs("ask 2") == "got"
    assert ours.take(1) is None
    assert ours.others() == [theirs.process.pid]
    assert theirs("release") == "done"
    assert ours.take(1) is not None
    assert ours.others() == []


def test_a_big_cell_does_not_starve_behind_small_ones(share: Callable[[], SharedSlots]) -> None:
    first, second, big, small = share(), share(), share(), share()
    one, another = _had(first.take(1)), _had(second.take(1))
    assert big.take(2) is None
    one.release()
    # A slot is free, and the small cell would fit: it came later.
    assert small.take(1) is None
    assert first.take(1) is None
    another.release()
    assert small.take(1) is None
    taken = _had(big.take(2))
    taken.release()
    # Nor do small ones among each other, whoever asks most often.
    assert first.take(1) is None
    assert small.take(1) is not None
    assert first.take(1) is not None


def test_a_killed_holder_gives_its_slots_back(share: Callable[[], SharedSlots], start: Start) -> None:
    ours, theirs = share(), start()
    assert theirs("take 2") == "done"
    child = int(theirs("fork"))
    assert ours.take(2) is None
    theirs.kill()
    try:
        # What it forked lives on, and has no part in its slots.
        assert _soon(lambda: ours.take(2))
    finally:
        os.kill(child, signal.SIGKILL)


def test_a_killed_waiter_loses_its_place(share: Callable[[], SharedSlots], start: Start) -> None:
    holder, ours, theirs = share(), share(), start()
    taken = _had(holder.take(1))
    assert theirs("ask 2") == "none"
    assert ours.take(1) is None
    assert ours.others() == sorted({os.getpid(), theirs.process.pid})
    theirs.kill()
    assert ours.take(1) is not None
    taken.release()


def test_a_waiter_that_stands_still_is_passed_over_and_keeps_its_place(
    share: Callable[[], SharedSlots], tmp_path: Path
) -> None:
    holder, still, ours = share(), share(), share()
    taken = _had(holder.take(2))
    assert still.take(2) is None
    [ticket] = (tmp_path / "queue").iterdir()
    taken.release()
    assert ours.take(1) is None
    then = time.time() - STALE_S - 1
    os.utime(ticket, (then, then))
    one = _had(ours.take(1))
    still._queue._touched_s = 0.0
    assert still.take(2) is None
    assert ours.take(1) is None
    one.release()
    assert still.take(2) is not None


def test_who_leaves_makes_room(share: Callable[[], SharedSlots], tmp_path: Path) -> None:
    holder, first, second = share(), share(), share()
    holding = _had(holder.take(1))
    assert first.take(2) is None
    assert second.take(1) is None
    first.leave()
    assert second.take(1) is not None
    assert list((tmp_path / "queue").iterdir()) == []
    holding.release()


def test_many_processes_with_cells_of_all_sizes_come_to_an_end(tmp_path: Path) -> None:
    users, cells, count = 8, 6, 3
    processes = [
        subprocess.Popen(
            [sys.executable, USER, tmp_path, str(count), str(cells), str(seed)], stdout=subprocess.PIPE, text=True
        )
        for seed in range(users)
    ]
    try:
        answers = [process.communicate(timeout=PATIENCE_S * 3)[0].split() for process in processes]
    finally:
        for process in processes:
            process.kill()
    assert [process.returncode for process in processes] == [0] * users
    assert [len(answer) for answer in answers] == [cells] * users
    assert set(Counter(ranks for answer in answers for ranks in answer)) == {"1", "2", "3", "6"}
    assert SharedSlots(tmp_path, core_slots(range(count))).take(count) is not None


def test_gpus_that_a_cell_gets_are_what_its_ranks_see(tmp_path: Path) -> None:
    gpus = [Slot(name=f"gpu-{number}", device=str(number)) for number in (2, 3, 5)]
    mine, theirs = SharedSlots(tmp_path, gpus), SharedSlots(tmp_path, gpus)
    two = _had(mine.take(2))
    one = _had(theirs.take(1))
    assert (two.variables, one.variables) == ({"CUDA_VISIBLE_DEVICES": "2,3"}, {"CUDA_VISIBLE_DEVICES": "5"})
    two.release()
    one.release()
    assert _had(mine.take(4)).variables == {"CUDA_VISIBLE_DEVICES": "2,3,5"}
    assert mine.noun == "GPUs"


def test_cores_leave_the_environment_alone(share: Callable[[], SharedSlots]) -> None:
    slots = share()
    assert _had(slots.take(2)).variables == {}
    assert slots.noun == "places"


def test_the_machine_has_two_slots_a_core_where_no_gpu_is_visible(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tmp_path.chmod(0o700)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    cores = sorted(os.sched_getaffinity(0))
    everything = _had(machine_slots().take(2 * len(cores)))
    names = sorted(path.name for path in (tmp_path / "gradassay").glob("core-*"))
    assert names == sorted(f"core-{number}-{place}" for number in cores for place in range(2))
    assert machine_slots().take(1) is None
    everything.release()


def test_the_folder_is_private(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    session = tmp_path / "session"
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(session))
    ours = tmp_path / f"gradassay-{os.getuid()}"
    assert machine_folder() == ours
    assert ours.stat().st_mode & 0o777 == 0o700
    session.mkdir(mode=0o700)
    assert machine_folder() == session / "gradassay"
    session.chmod(0o777)
    assert machine_folder() == ours


@pytest.mark.parametrize("trap", ["writable", "link", "file"])
def test_a_folder_that_others_can_write_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, trap: str) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "none"))
    folder = tmp_path / f"gradassay-{os.getuid()}"
    if trap == "writable":
        folder.mkdir()
        folder.chmod(0o777)
    elif trap == "link":
        (tmp_path / "elsewhere").mkdir(mode=0o700)
        folder.symlink_to(tmp_path / "elsewhere")
    else:
        folder.touch()
    with pytest.raises(UsageError, match=f"gradassay-{os.getuid()}") as raised:
        machine_folder()
    assert "XDG_RUNTIME_DIR" in raised.value.hint
