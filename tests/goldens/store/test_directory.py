"""The directory store's files: what a crash, a damaged file or a full disk leaves behind."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from gradassay.goldens.container import digest_of_file
from gradassay.goldens.errors import InvalidFile, NotFound, StoreError
from gradassay.goldens.store import directory, ledger
from gradassay.goldens.store.approval import Approval
from gradassay.goldens.store.directory import DirectoryStore

Write = Callable[..., Path]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "store"


def test_damaged_content_is_refused_with_both_digests_and_mended_by_storing_again(
    folder: Path, write_golden: Write, write_record: Write
):
    store = DirectoryStore(folder)
    golden, record = store.put_golden(write_golden()), store.put_record(write_record())
    for path, digest, look, put in (
        (store.golden_path(golden.name, 1), golden.digest, lambda: store.golden_path(golden.name, 1), store.put_golden),
        (store.record_path(record.id), record.digest, lambda: store.record_path(record.id), store.put_record),
    ):
        whole = path.read_bytes()
        path.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
        with pytest.raises(InvalidFile) as refused:
            look()
        assert digest in str(refused.value)
        assert digest_of_file(path) in str(refused.value)
        put(write_golden() if put == store.put_golden else write_record())
        assert look().read_bytes() == whole


def test_content_that_was_removed_is_an_error_of_the_store(folder: Path, write_record: Write):
    store = DirectoryStore(folder)
    record = store.put_record(write_record())
    store.record_path(record.id).unlink()
    with pytest.raises(StoreError, match="cannot be read"):
        store.record_path(record.id)


@pytest.mark.parametrize("step", ["publish", "write_atomically"])
def test_crash_while_storing_shows_nothing_and_costs_no_number(
    folder: Path, write_golden: Write, write_record: Write, monkeypatch: pytest.MonkeyPatch, step: str
):
    store = DirectoryStore(folder)

    def crash(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(directory, step, crash)
        with pytest.raises(KeyboardInterrupt):
            store.put_golden(write_golden(1))
        with pytest.raises(KeyboardInterrupt):
            store.put_record(write_record())
    assert not store.goldens()
    assert not store.records()
    assert not list(folder.rglob(".incoming.*"))
    stored = store.put_golden(write_golden(2))
    assert stored.version == 1
    assert store.golden_path(stored.name, 1).read_bytes() == write_golden(2).read_bytes()


def test_process_killed_while_it_holds_the_lock_frees_it(folder: Path, write_golden: Write):
    store = DirectoryStore(folder)
    lock = folder / "goldens" / store.put_golden(write_golden(1)).name / ".lock"
    program = (
        "import os, sys, signal; from pathlib import Path; from gradassay.goldens.store.lock import locked\n"
        "with locked(Path(sys.argv[1])): os.kill(os.getpid(), signal.SIGKILL)"
    )
    assert subprocess.run([sys.executable, "-c", program, lock], check=False).returncode == -9
    assert store.put_golden(write_golden(2)).version == 2


def test_processes_that_store_at_once_get_numbers_of_their_own(folder: Path, write_golden: Write):
    paths = [write_golden(variant) for variant in (1, 2, 3)]
    program = (
        "import sys; from pathlib import Path; from gradassay.goldens.store.directory import DirectoryStore\n"
        "for path in sys.argv[2:]: DirectoryStore(Path(sys.argv[1])).put_golden(Path(path))"
    )
    orders = [paths, paths[::-1], paths[1:] + paths[:1]]
    writers = [subprocess.Popen([sys.executable, "-c", program, folder, *order]) for order in orders]
    assert [writer.wait(60) for writer in writers] == [0, 0, 0]
    versions = DirectoryStore(folder).goldens()
    assert [version.version for version in versions] == [1, 2, 3]
    assert {version.digest for version in versions} == {digest_of_file(path) for path in paths}


def test_unfinished_approval_does_not_count_and_is_cut_off(folder: Path, write_golden: Write):
    store = DirectoryStore(folder)
    name = store.put_golden(write_golden()).name
    store.approve(name, 1, who="ada", why="first")
    path = folder / "goldens" / name / "approvals.jsonl"
    with path.open("a") as file:
        file.write('{"name": "toy", "channel": "approved", "version": 9')
    assert [entry.who for entry in store.approvals(name)] == ["ada"]
    store.approve(name, 1, who="bob", why="again")
    assert [json.loads(line)["who"] for line in path.read_text().splitlines()] == ["ada", "bob"]


def test_edited_ledger_is_an_error_that_names_the_line(folder: Path, write_golden: Write):
    store = DirectoryStore(folder)
    name = store.put_golden(write_golden()).name
    store.approve(name, 1, who="ada", why="first")
    path = folder / "goldens" / name / "approvals.jsonl"
    path.write_text("approved: 1\n" + path.read_text())
    with pytest.raises(StoreError, match="line 1"):
        store.goldens(name)


def test_approval_that_cannot_be_written_does_not_take_effect(tmp_path: Path):
    entry = Approval(name="n", channel="approved", version=1, previous=None, who="ada", why="w", when="now")
    with pytest.raises(StoreError, match="could not be written"):
        ledger.append(tmp_path / "missing" / "approvals.jsonl", entry)


def test_entry_that_was_edited_is_an_error(folder: Path, write_golden: Write):
    store = DirectoryStore(folder)
    name = store.put_golden(write_golden()).name
    (folder / "goldens" / name / "v1.json").write_text('{"version": "one"}')
    with pytest.raises(StoreError, match=r"v1\.json"):
        store.goldens(name)


def test_folder_that_cannot_be_made_is_an_error_of_the_store(tmp_path: Path, write_golden: Write):
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="could not be written"):
        DirectoryStore(tmp_path / "file" / "store").put_golden(write_golden())


def test_reading_an_empty_store_makes_nothing(folder: Path):
    store = DirectoryStore(folder)
    assert not store.goldens()
    assert not store.records()
    with pytest.raises(NotFound):
        store.find_record("0123456789")
    assert not folder.exists()


def test_stored_files_can_be_read_by_others(folder: Path, write_golden: Write):
    store = DirectoryStore(folder)
    path = store.golden_path(store.put_golden(write_golden()).name, 1)
    assert path.stat().st_mode & 0o777 == 0o644
    assert os.access(path.with_suffix(".json"), os.R_OK)
