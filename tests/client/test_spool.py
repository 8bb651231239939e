"""The spool: whole files, each once, for one service, whatever dies meanwhile."""

from __future__ import annotations

import resource
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from gradassay.client.spool import Spool, Spooled
from gradassay.goldens.container import digest_of_file
from gradassay.goldens.errors import InvalidFile, StorageFull, StoreError
from gradassay.goldens.golden import Golden
from gradassay.goldens.record import Record

URL = "http://127.0.0.1:1"
DEADLINE_S = 60.0


def unreadable(error: StoreError) -> None:
    raise error


def names(spool: Spool) -> list[str]:
    """What lies in it, without locks."""
    return sorted(path.name for path in spool.folder.iterdir() if path.name not in (".writing", ".sending"))


@pytest.fixture
def spool(tmp_path: Path) -> Spool:
    return Spool(tmp_path / "spool", URL)


@pytest.fixture
def record(tmp_path: Path, make_record: Callable[..., Record]) -> Path:
    path = tmp_path / "record.safetensors"
    make_record().write(path)
    return path


def test_what_is_spooled_is_kept_as_it_was_and_once(spool: Spool, record: Path) -> None:
    first = spool.add(record, kind="record", source="there")
    again = spool.add(record, kind="record", source="elsewhere")

    assert first == again
    assert spool.entries(unreadable) == [first]
    assert (first.url, first.digest, first.source) == (URL, digest_of_file(record), "there")
    record.unlink()
    spool.check(first)
    assert digest_of_file(spool.content_path(first)) == first.digest
    assert spool.folder.stat().st_mode & 0o077 == 0

    spool.remove(first)
    assert (spool.count(), names(spool)) == (0, [])


def test_a_golden_keeps_its_name_and_reason(spool: Spool, tmp_path: Path, make_golden: Callable[..., Golden]) -> None:
    make_golden().write(tmp_path / "golden.safetensors")
    spool.add(tmp_path / "golden.safetensors", kind="golden", name="toy.float32", why="torch 2.13")

    (entry,) = spool.entries(unreadable)
    assert (entry.kind, entry.name, entry.why) == ("golden", "toy.float32", "torch 2.13")


def test_another_services_files_are_not_seen(spool: Spool, record: Path, tmp_path: Path) -> None:
    other = Spool(tmp_path / "spool", "http://127.0.0.1:2")
    spool.add(record, kind="record")

    assert (spool.count(), other.count()) == (1, 0)
    assert Spool(tmp_path / "spool", f"{URL}/").count() == 1
    entry = next(spool.folder.glob("*.json"))
    other.folder.mkdir()
    (other.folder / entry.name).write_bytes(entry.read_bytes())
    with pytest.raises(StoreError, match=f"is meant for {URL}"):
        other.entries(unreadable)


def test_only_valid_files_are_spooled(spool: Spool, record: Path) -> None:
    record.write_bytes(record.read_bytes()[:-8])
    with pytest.raises(InvalidFile):
        spool.add(record, kind="record")
    assert names(spool) == []


@contextmanager
def files_of_at_most(size: int) -> Iterator[None]:
    """No file can grow beyond that, as on a disk that is full."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.mark.parametrize("room", [10_000, 0])
def test_a_full_disk_is_said_and_leaves_nothing(spool: Spool, record: Path, room: int) -> None:
    with files_of_at_most(room), pytest.raises(StorageFull, match="could not be written"):
        spool.add(record, kind="record")
    assert names(spool) == []

    spool.add(record, kind="record")
    assert spool.count() == 1


def test_an_entry_without_room_takes_its_content_along(
    spool: Spool, record: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The content finds room, what describes it does not."""

    def full(path: Path, content: bytes) -> None:
        raise StorageFull(f"{path}: could not be written")

    monkeypatch.setattr("gradassay.client.spool.write_atomically", full)
    with pytest.raises(StorageFull):
        spool.add(record, kind="record")
    assert names(spool) == []


def test_a_folder_that_cannot_be_made_is_said(tmp_path: Path, record: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="the spool cannot be used") as raised:
        Spool(tmp_path / "file", URL).add(record, kind="record")
    assert "GRADASSAY_SPOOL" in raised.value.hint


def test_what_writers_left_that_died_is_swept(spool: Spool, record: Path) -> None:
    entry = spool.add(record, kind="record")
    spool.remove(entry)
    (spool.folder / f"{'0' * 64}.safetensors").write_bytes(b"its entry was never written, or is removed already")
    (spool.folder / ".x.json.y.partial").write_bytes(b"half")
    (spool.folder / ".incoming.z.safetensors").write_bytes(b"half")

    assert spool.entries(unreadable) == []
    spool.add(record, kind="record")
    assert names(spool) == sorted(path.name for path in spool._paths(entry.digest))


def test_damage_is_named_and_keeps_none_of_the_others(
    spool: Spool, record: Path, tmp_path: Path, make_record: Callable[..., Record]
) -> None:
    make_record(seed=2).write(tmp_path / "second.safetensors")
    changed = spool.add(record, kind="record")
    whole = spool.add(tmp_path / "second.safetensors", kind="record")
    spool.content_path(changed).write_bytes(b"something else")
    (spool.folder / "damaged.json").write_text("{")

    said: list[str] = []
    found = spool.entries(lambda error: said.append(error.message))

    assert {entry.digest for entry in found} == {changed.digest, whole.digest}
    assert len(said) == 1
    assert "damaged.json" in said[0]
    spool.check(whole)
    with pytest.raises(InvalidFile, match="the spool holds sha256"):
        spool.check(changed)
    refused = spool.put_aside(changed)
    assert sorted(path.suffix for path in refused.iterdir()) == [".json", ".safetensors"]
    assert [entry.digest for entry in spool.entries(lambda error: None)] == [whole.digest]


def test_one_sends_at_a_time(spool: Spool, record: Path) -> None:
    spool.add(record, kind="record")
    took = threading.Event()

    def wait() -> None:
        with spool.turn(wait=True) as ours:
            assert ours
            took.set()

    with spool.turn(wait=False) as ours:
        assert ours
        with spool.turn(wait=False) as also:
            assert not also
        waiting = threading.Thread(target=wait)
        waiting.start()
        assert not took.is_set()
    waiting.join(DEADLINE_S)
    assert took.is_set()


def test_a_turn_ends_with_the_process_that_has_it(spool: Spool, record: Path) -> None:
    spool.add(record, kind="record")
    script = (
        "import sys\n"
        "from pathlib import Path\n"
        "from gradassay.client.spool import Spool\n"
        "with Spool(Path(sys.argv[1]), sys.argv[2]).turn(wait=False):\n"
        "    print('held', flush=True)\n"
        "    sys.stdin.read()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script, str(spool.folder.parent), URL], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as holding:
        assert holding.stdout is not None
        assert holding.stdout.readline() == b"held\n"
        with spool.turn(wait=False) as ours:
            assert not ours
        holding.kill()
        holding.wait(DEADLINE_S)
        with spool.turn(wait=False) as ours:
            assert ours


def test_nothing_is_made_where_nothing_waits(spool: Spool) -> None:
    with spool.turn(wait=True) as ours:
        assert ours
        assert spool.entries(unreadable) == []
    assert not spool.folder.exists()


def test_oldest_first(spool: Spool, tmp_path: Path, make_record: Callable[..., Record]) -> None:
    entries: list[Spooled] = []
    for seed in range(3):
        path = tmp_path / f"{seed}.safetensors"
        make_record(seed=seed).write(path)
        entries.append(spool.add(path, kind="record"))

    assert spool.entries(unreadable) == sorted(entries, key=lambda entry: (entry.since, entry.digest))
