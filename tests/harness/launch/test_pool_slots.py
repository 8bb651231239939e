"""Pools of several processes on the slots of one machine."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from gradassay.harness.launch import Outcome, Pool, Task, notice
from gradassay.harness.launch.slots import SharedSlots, Slot, core_slots

pytestmark = pytest.mark.dist
Make = Callable[..., Task]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the two slots of this module are."""
    return tmp_path_factory.mktemp("slots")


@pytest.fixture(scope="module")
def said() -> list[str]:
    """What the sharing pool says to people."""
    return []


@pytest.fixture(scope="module")
def sharing_pool(folder: Path, said: list[str], surroundings: Callable[[str], Any]) -> Iterator[Pool]:
    slots = SharedSlots(folder, [Slot(name=f"gpu-{number}", device=str(number)) for number in (4, 7)])
    with Pool(environments=surroundings, slots=slots, say=lambda text: said.append(text)) as pool:
        yield pool


def _other(folder: Path) -> SharedSlots:
    return SharedSlots(folder, [Slot(name=f"gpu-{number}") for number in (4, 7)])


def _is_free(slots: SharedSlots) -> bool:
    """Whether nobody has a slot or waits for one."""
    taken = slots.take(slots.count)
    if taken is None:
        slots.leave()
        return False
    taken.release()
    return True


def test_ranks_see_the_gpus_of_their_cell_and_hold_no_lock(sharing_pool: Pool, folder: Path, task: Make) -> None:
    tasks = [task("shows_descriptors", world=world, name=f"{world}.json") for world in (1, 2, 4)]
    outcomes = {outcome.cell.layout.world: outcome for outcome in sharing_pool.run(tasks)}
    seen = {world: json.loads(outcome.require().read_text()) for world, outcome in outcomes.items()}
    assert {world: facts["gpus"] for world, facts in seen.items()} == {1: "4", 2: "4,7", 4: "4,7"}
    opened = [path for facts in seen.values() for path in facts["rank"] + facts["server"]]
    assert any(path.startswith("socket:") for path in opened)
    assert not any(str(folder) in path for path in opened)
    assert _is_free(_other(folder))


def test_a_cell_waits_for_other_processes_says_so_and_serves_its_others(
    sharing_pool: Pool, folder: Path, task: Make, said: list[str]
) -> None:
    other = _other(folder)
    taken = other.take(1)
    assert taken is not None
    outcomes: list[Outcome] = []
    for outcome in sharing_pool.run([task("reduces", world=1, name="1.json"), task("reduces", world=2, name="2.json")]):
        outcomes.append(outcome)
        if len(outcomes) == 1:
            assert said == []
            threading.Timer(2 * notice.FIRST_S, taken.release).start()
    assert [outcome.cell.layout.world for outcome in outcomes] == [1, 2]
    assert all(outcome.path is not None for outcome in outcomes)
    assert said == ["fake reduces dp2 float32 waits for 2 of 2 GPUs: this process has them or came first"]


def test_stopping_early_gives_slots_and_place_back(sharing_pool: Pool, folder: Path, task: Make) -> None:
    run = sharing_pool.run([task("writes_nothing", world=1), task("ignores_sigterm", world=1), task("reduces")])
    next(run)
    assert not _is_free(_other(folder))
    run.close()
    assert _is_free(_other(folder))
    assert list((folder / "queue").iterdir()) == []


def test_a_cell_whose_folder_cannot_be_made_holds_no_slot(
    sharing_pool: Pool, folder: Path, task: Make, tmp_path: Path
) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(FileExistsError):
        list(sharing_pool.run([task("reduces", world=2, name="file/out.json")]))
    assert _is_free(_other(folder))


def test_imports_hold_no_slot(tmp_path: Path, task: Make, fake_environment: type) -> None:
    slots = SharedSlots(tmp_path, core_slots(range(2)))
    broken = fake_environment(preload=("no_such_framework",))
    with Pool(environments=lambda name: broken, slots=slots) as pool:
        free: list[bool] = []
        stop = threading.Event()

        def watch() -> None:
            while not stop.wait(0.01):
                free.append(_is_free(SharedSlots(tmp_path, core_slots(range(2)))))

        watcher = threading.Thread(target=watch)
        watcher.start()
        outcomes = list(pool.run([task("reduces", world=2)]))
        stop.set()
        watcher.join()
    assert all(free)
    assert len(free) > 10
    assert "before it was ready" in outcomes[0].failure.reason


def test_ports_of_cells_that_run_at_once_differ(tmp_path: Path, task: Make, surroundings: Callable[[str], Any]) -> None:
    outcomes: list[Outcome] = []
    with Pool(environments=surroundings, slots=8) as one, Pool(environments=surroundings, slots=8) as another:
        threads = [
            threading.Thread(
                target=lambda pool=pool, names=names: outcomes.extend(
                    pool.run([task("meets_other_cells", world=2, name=name) for name in names])
                )
            )
            for pool, names in ((one, ("a", "b")), (another, ("c", "d")))
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    totals = [json.loads(outcome.require().read_text())["total"] for outcome in outcomes]
    ports = {path.name: path.read_text() for path in (tmp_path / "ports").iterdir()}
    assert totals == [1.0] * 4
    assert len(set(ports.values())) == 4
    assert all(ports[f"{name}.0"] == ports[f"{name}.1"] for name in "abcd")
