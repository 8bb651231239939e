from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from gradassay.goldens.layout import Layout
from gradassay.harness.cell import Cell
from gradassay.harness.launch import Pool, Task
from gradassay.harness.launch.slots import SharedSlots, core_slots

HERE = Path(__file__).parent


@dataclass(frozen=True)
class FakeEnvironment:
    """Surroundings from which ranks can import the functions of these tests."""

    paths: tuple[Path, ...] = (HERE,)
    variables: dict[str, str] = field(default_factory=dict)
    preload: tuple[str, ...] = ()


def is_alive(pid: int) -> bool:
    """Whether the process runs; one that ended and was not waited for does not."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


@pytest.fixture
def alive() -> Callable[[int], bool]:
    return is_alive


@pytest.fixture(scope="module")
def pids_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("pids")


@pytest.fixture(scope="module")
def warm_pool(pids_folder: Path) -> Iterator[Pool]:
    """A pool whose ranks leave their process ids in `pids_folder`."""
    variables = {"PIDS_FOLDER": str(pids_folder)}
    with Pool(environments=lambda name: FakeEnvironment(variables=variables), slots=2) as pool:
        yield pool


@pytest.fixture
def task(tmp_path: Path) -> Callable[..., Task]:
    def build(
        function: str, *, world: int = 4, name: str = "out.json", framework: str = "", deadline_s: float = 60
    ) -> Task:
        cell = Cell(problem="fake", strategy=function, layout=Layout(dp=world), framework=framework)
        return Task(cell=cell, out=tmp_path / name, function=f"ranks_for_tests:{function}", deadline_s=deadline_s)

    return build


@pytest.fixture
def left_over(pids_folder: Path, alive: Callable[[int], bool]) -> Callable[[], list[int]]:
    """The processes, of all that left their ids, which still run."""
    return lambda: [int(path.name) for path in pids_folder.iterdir() if alive(int(path.name))]


@pytest.fixture(scope="module")
def surroundings() -> Callable[[str], FakeEnvironment]:
    """The same surroundings for every framework."""
    return lambda name: FakeEnvironment()


@pytest.fixture
def fake_environment() -> type[FakeEnvironment]:
    return FakeEnvironment


class User:
    """Another process that uses the slots of a folder, as it is told."""

    def __init__(self, folder: Path, count: int) -> None:
        self.process = subprocess.Popen(
            [sys.executable, HERE / "slot_user.py", folder, str(count)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def __call__(self, order: str) -> str:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(f"{order}\n")
        self.process.stdin.flush()
        return self.process.stdout.readline().strip()

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[[], User]]:
    """Starts another process on the two slots of the test's folder."""
    users: list[User] = []

    def start() -> User:
        users.append(User(tmp_path, 2))
        return users[-1]

    yield start
    for user in users:
        user.kill()


@pytest.fixture
def share(tmp_path: Path) -> Callable[[], SharedSlots]:
    """Another pool's view of the two slots of the test's folder; locks tell views apart, whosever they are."""
    return lambda: SharedSlots(tmp_path, core_slots(range(2)))
