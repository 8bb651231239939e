"""Temporary files: of writers that died they are removed, of living ones they are not; a full disk is called that."""

from __future__ import annotations

import os
import resource
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from gradassay.goldens.atomic import write_atomically
from gradassay.goldens.errors import StorageFull
from gradassay.goldens.record import Record, read_record
from gradassay.goldens.store.directory import DirectoryStore
from gradassay.goldens.store.staging import remove_abandoned, remove_abandoned_folders, staged, staging_folder


@pytest.fixture
def record(make_record: Callable[..., Record], tmp_path: Path) -> Path:
    """A record file."""
    path = tmp_path / "record.safetensors"
    make_record().write(path)
    return path


def killed_while(work: Callable[[], None]) -> None:
    """Does the work in a process of its own, which then ends by SIGKILL."""
    child = os.fork()
    if child == 0:
        try:
            work()
        finally:
            os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(child, 0)


def test_abandoned_files_are_removed_and_living_ones_stay(record: Path, tmp_path: Path):
    folder = tmp_path / "store"

    def die() -> None:
        with staged(record, folder, read_record):
            os.kill(os.getpid(), signal.SIGKILL)

    killed_while(die)
    assert len(list(folder.iterdir())) == 1
    with staged(record, folder, read_record) as living:
        assert remove_abandoned(folder) == 1
        assert list(folder.iterdir()) == [living.path]
        assert living.path.read_bytes() == record.read_bytes()
    assert list(folder.iterdir()) == []


def test_staging_folders_too(record: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))

    def die() -> None:
        with staging_folder() as folder, staged(record, folder, read_record):
            os.kill(os.getpid(), signal.SIGKILL)

    killed_while(die)
    with staging_folder() as folder, staged(record, folder, read_record) as living:
        assert remove_abandoned_folders() == 1
        assert living.path.exists()
        assert list(tmp_path.glob("gradassay-staging-*")) == [folder]
    assert list(tmp_path.glob("gradassay-staging-*")) == []


def test_store_removes_what_was_never_named(record: Path, tmp_path: Path):
    store = DirectoryStore(tmp_path / "store")
    kept = store.put_record(record)
    (store.folder / "records" / ".incoming.x.safetensors").write_bytes(b"half")
    (store.folder / "records" / ".entry.json.x.partial").write_bytes(b"half")
    assert (store.remove_abandoned(), store.remove_abandoned()) == (2, 0)
    assert store.records() == [kept]
    assert DirectoryStore(tmp_path / "nowhere").remove_abandoned() == 0


@contextmanager
def files_of_at_most(size: int) -> Iterator[None]:
    """No file can grow beyond that, as on a disk that is full."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_full_disk_is_said_and_nothing_is_left(record: Path, tmp_path: Path):
    store = DirectoryStore(tmp_path / "store")
    with files_of_at_most(10_000), pytest.raises(StorageFull, match="could not be written"):
        store.put_record(record)
    with files_of_at_most(10_000), pytest.raises(StorageFull, match="could not be written"):
        write_atomically(tmp_path / "store" / "file", bytes(20_000))
    assert [path for path in store.folder.rglob("*") if path.is_file() and path.name != ".lock"] == []
