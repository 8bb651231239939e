"""A project to be tested, and a store with the golden that its tests mean."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from gradassay.goldens.store.directory import DirectoryStore
from projects import Project
from quick_golden import quick_golden


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """An empty project."""
    folder = tmp_path / "project"
    folder.mkdir()
    return Project(folder=folder)


@pytest.fixture(scope="session")
def golden_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The golden of moe-tiny in float32."""
    path = tmp_path_factory.mktemp("golden") / "golden.safetensors"
    quick_golden().write(path)
    return path


@pytest.fixture(scope="session")
def golden_store(golden_file: Path) -> Path:
    """A folder that is a store, in which that golden is approved."""
    folder = golden_file.parent / "store"
    store = DirectoryStore(folder)
    version = store.put_golden(golden_file)
    store.approve(version.name, version.version, who="ada", why="measured")
    return folder


@pytest.fixture
def alive() -> Callable[[int], bool]:
    """Whether a process runs; one that ended and was not waited for does not."""

    def is_alive(pid: int) -> bool:
        try:
            state = Path(f"/proc/{pid}/stat").read_text()
        except (FileNotFoundError, ProcessLookupError):
            return False
        return re.sub(r"^.*\) ", "", state)[0] not in "ZX"

    return is_alive
