from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from gradassay.goldens.layout import Layout
from gradassay.harness.cell import Cell
from gradassay.harness.launch import Pool, Task

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


@pytest.fixture
def fake_environment() -> type[FakeEnvironment]:
    return FakeEnvironment
