"""What people may write for a record or golden."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from gradassay.goldens.errors import InvalidFile, NoGolden, NotFound, UsageError
from gradassay.goldens.golden import Golden
from gradassay.goldens.record import Record
from gradassay.goldens.reference import GoldenReference, resolve
from gradassay.goldens.store.open import open_store
from gradassay.goldens.store.protocol import GoldenStore


def _no_store() -> GoldenStore:
    raise AssertionError("a file needs no store")


@pytest.fixture
def folder(tmp_path: Path, make_golden: Callable[..., Golden], make_record: Callable[..., Record]) -> Path:
    """A folder with a golden and a record, and something that is neither."""
    make_golden().write(tmp_path / "a.safetensors")
    make_record().write(tmp_path / "b.safetensors")
    (tmp_path / "notes.txt").write_text("neither")
    return tmp_path


def test_files_and_folders_need_no_store(folder: Path) -> None:
    (golden,) = resolve(str(folder / "a.safetensors"), _no_store)
    assert (golden.kind, golden.path) == ("golden", folder / "a.safetensors")
    assert [found.kind for found in resolve(str(folder), _no_store)] == ["golden", "record"]


def test_store_references(folder: Path, tmp_path: Path) -> None:
    store = open_store(f"dir:{tmp_path / 'store'}")
    version = store.put_golden(folder / "a.safetensors")
    record = store.put_record(folder / "b.safetensors")

    (found,) = resolve(f"run:{record.id}", lambda: store)
    assert (found.kind, found.ref) == ("record", f"run:{record.id}")
    with pytest.raises(NoGolden):
        resolve(f"golden:{version.name}", lambda: store)
    store.approve(version.name, 1, who="ada", why="first")
    for text in (version.name, f"{version.name}@approved", f"{version.name}@v1"):
        (found,) = resolve(f"golden:{text}", lambda: store)
        assert found.kind == "golden"
    with pytest.raises(NotFound):
        resolve(f"golden:{version.name}@v2", lambda: store)


@pytest.mark.parametrize("text", ["run:", "mlflow:", "golden:", "golden:@v1", "golden:name@"])
def test_references_without_a_name(text: str) -> None:
    with pytest.raises(UsageError):
        resolve(text, _no_store)


def test_paths_that_hold_nothing(tmp_path: Path) -> None:
    with pytest.raises(InvalidFile, match="no such file"):
        resolve(str(tmp_path / "missing"), _no_store)
    with pytest.raises(InvalidFile, match="no record or golden"):
        resolve(str(tmp_path), _no_store)
    (tmp_path / "bad.safetensors").write_bytes(b"nothing")
    with pytest.raises(InvalidFile, match=r"bad\.safetensors"):
        resolve(str(tmp_path), _no_store)


@pytest.mark.parametrize(
    ("text", "version", "channel"),
    [("moe", None, "approved"), ("moe@v12", 12, "approved"), ("moe@nightly", None, "nightly"), ("moe@v0", None, "v0")],
)
def test_golden_references(text: str, version: int | None, channel: str) -> None:
    assert GoldenReference.parse(text) == GoldenReference(name="moe", version=version, channel=channel)
