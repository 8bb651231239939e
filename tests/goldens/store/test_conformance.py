"""What every store promises, on every kind of store."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from gradassay.goldens.container import digest_of_file
from gradassay.goldens.errors import Conflict, GradassayError, InvalidFile, NoGolden, NotFound, UsageError
from gradassay.goldens.store.protocol import GoldenStore

Write = Callable[..., Path]
Open = Callable[[str], GoldenStore]


def test_golden_versions_count_up_and_are_idempotent(
    store: GoldenStore, kind: str, stores: Open, write_golden: Write, toy
):
    first = store.put_golden(write_golden(1))
    second = store.put_golden(write_golden(2))
    assert (first.version, second.version) == (1, 2)
    assert first.name == f"{toy.name}.float32"
    assert store.put_golden(write_golden(1)).version == 1
    assert stores(kind).put_golden(write_golden(2)).version == 2
    versions = store.goldens(first.name)
    assert [version.version for version in versions] == [1, 2]
    assert [version.digest for version in versions] == [digest_of_file(write_golden(n)) for n in (1, 2)]
    assert set(versions) <= set(store.goldens())


def test_golden_comes_back_byte_for_byte(store: GoldenStore, kind: str, stores: Open, write_golden: Write):
    path = write_golden()
    stored = store.put_golden(path)
    assert store.golden_path(stored.name, 1).read_bytes() == path.read_bytes()
    assert stores(kind).golden_path(stored.name, 1).read_bytes() == path.read_bytes()


def test_channel_points_where_the_last_approval_says(store: GoldenStore, write_golden: Write):
    name = store.put_golden(write_golden(1)).name
    store.put_golden(write_golden(2))
    with pytest.raises(NoGolden, match="v1, v2"):
        store.golden_path(name)
    assert store.approve(name, 1, who="ada", why="first").channels == ("approved",)
    assert store.find_golden(name).version == 1
    assert store.approve(name, 2, who="bob", why="more references").channels == ("approved",)
    assert store.approve(name, 1, channel="nightly", who="ada", why="trial").channels == ("nightly",)
    assert [version.channels for version in store.goldens(name)] == [("nightly",), ("approved",)]
    assert store.golden_path(name).read_bytes() == write_golden(2).read_bytes()
    assert store.golden_path(name, channel="nightly").read_bytes() == write_golden(1).read_bytes()


def test_history_says_who_why_from_and_to(store: GoldenStore, kind: str, stores: Open, write_golden: Write):
    name = store.put_golden(write_golden(1)).name
    store.put_golden(write_golden(2))
    store.approve(name, 1, who="ada", why="first, with a line\nand ünïcode")
    store.approve(name, 2, who="bob", why="second")
    history = stores(kind).approvals(name)
    assert [(entry.who, entry.previous, entry.version) for entry in history] == [("ada", None, 1), ("bob", 1, 2)]
    assert history[0].why == "first, with a line\nand ünïcode"
    assert history[0].when < history[1].when


def test_approval_compares_before_it_sets(store: GoldenStore, write_golden: Write):
    name = store.put_golden(write_golden(1)).name
    store.put_golden(write_golden(2))
    with pytest.raises(Conflict, match="no version, not to v1"):
        store.approve(name, 2, who="ada", why="because", expected=1)
    store.approve(name, 1, who="ada", why="because", expected=0)
    with pytest.raises(Conflict, match="v1, not to no version"):
        store.approve(name, 2, who="ada", why="because", expected=0)
    store.approve(name, 2, who="ada", why="because", expected=1)
    assert len(store.approvals(name)) == 2


def test_withdrawn_channel_points_nowhere(store: GoldenStore, kind: str, stores: Open, write_golden: Write):
    name = store.put_golden(write_golden(1)).name
    store.withdraw(name, channel="approved", who="ada", why="there is nothing")
    assert not store.approvals(name)
    store.approve(name, 1, who="ada", why="start")
    with pytest.raises(Conflict, match="v1, not to v2"):
        store.withdraw(name, channel="approved", who="ada", why="because", expected=2)
    store.withdraw(name, channel="approved", who="bob", why="too early", expected=1)
    with pytest.raises(NoGolden, match="v1"):
        stores(kind).find_golden(name)
    assert stores(kind).find_golden(name, 1).channels == ()
    assert [(one.who, one.previous, one.version) for one in store.approvals(name)] == [("ada", None, 1), ("bob", 1, 0)]
    assert store.approve(name, 1, who="ada", why="again", expected=0).channels == ("approved",)
    assert [one.previous for one in store.approvals(name)] == [None, 1, None]
    assert not [sentence for sentence in store.repair() if name in sentence]


def test_deleted_version_is_gone_and_its_number_with_it(
    store: GoldenStore, kind: str, stores: Open, write_golden: Write
):
    first, second = (store.put_golden(write_golden(variant)) for variant in (1, 2))
    assert first.size == write_golden(1).stat().st_size
    store.approve(first.name, 1, who="ada", why="start")
    store.approve(first.name, 2, channel="nightly", who="ada", why="trial")
    with pytest.raises(Conflict, match="nightly"):
        store.delete_golden(first.name, 2)
    store.withdraw(first.name, channel="nightly", who="ada", why="done")
    path = store.golden_path(first.name, 2)
    store.delete_golden(first.name, 2)
    assert kind == "mlflow-server" or not path.exists()
    with pytest.raises(NotFound, match="v2"):
        stores(kind).golden_path(first.name, 2)
    with pytest.raises(NotFound, match="v2"):
        store.delete_golden(first.name, 2)
    assert [version.version for version in store.goldens(first.name)] == [1]
    assert store.put_golden(write_golden(2)).version == 3
    assert store.golden_path(first.name, 3).read_bytes() == write_golden(2).read_bytes()
    assert second.version == 2


def test_deleted_record_is_gone(store: GoldenStore, kind: str, stores: Open, write_record: Write):
    first, second = (store.put_record(write_record(seed)) for seed in (1, 2))
    assert first.size == write_record(1).stat().st_size
    store.delete_record(first.digest)
    for call in (store.delete_record, store.find_record, stores(kind).record_path):
        with pytest.raises(NotFound):
            call(first.digest)
    assert store.find_record(second.id) == second
    again = store.put_record(write_record(1))
    assert store.record_path(again.id).read_bytes() == write_record(1).read_bytes()


def test_of_many_approvals_at_once_one_wins(store: GoldenStore, kind: str, stores: Open, write_golden: Write):
    name = store.put_golden(write_golden(1)).name
    store.put_golden(write_golden(2))
    store.approve(name, 1, who="ada", why="start")

    def approve(number: int) -> bool:
        try:
            stores(kind).approve(name, 2, who=f"writer {number}", why="race", expected=1)
        except Conflict:
            return False
        return True

    with ThreadPoolExecutor(4) as pool:
        outcomes = list(pool.map(approve, range(4)))
    assert sorted(outcomes) == [False, False, False, True]
    assert [entry.version for entry in store.approvals(name)] == [1, 2]
    assert store.approvals(name)[1].who == f"writer {outcomes.index(True)}"


def test_of_many_puts_of_one_golden_at_once_one_version_comes(
    store: GoldenStore, kind: str, stores: Open, write_golden: Write
):
    paths = [write_golden(1), write_golden(2)] * 2
    with ThreadPoolExecutor(4) as pool:
        versions = list(pool.map(lambda path: stores(kind).put_golden(path), paths))
    kept = store.goldens(versions[0].name)
    assert len(kept) == 2
    assert len({version.version for version in kept}) == 2
    assert {(version.version, version.digest) for version in versions} == {(one.version, one.digest) for one in kept}


def test_records_are_kept_once(store: GoldenStore, kind: str, stores: Open, write_record: Write, toy):
    first = store.put_record(write_record(1))
    second = store.put_record(write_record(2))
    assert store.put_record(write_record(1)) == first
    assert stores(kind).put_record(write_record(1)) == first
    assert (first.problem, first.strategy, first.layout, first.dtype) == (toy.name, "ddp", "dp2.accum2", "float32")
    mine = [record for record in store.records() if record.problem == toy.name]
    assert mine == [first, second]
    for reference in (first.id, first.digest, first.id[:12], first.digest.removeprefix("sha256:")[:12]):
        assert store.find_record(reference) == first
        assert store.record_path(reference).read_bytes() == write_record(1).read_bytes()


def test_record_with_infinite_norm_is_kept_whole(store: GoldenStore, write_record: Write):
    path = write_record(nonfinite=True)
    assert store.record_path(store.put_record(path).id).read_bytes() == path.read_bytes()


@pytest.mark.parametrize("damage", ["truncated", "pickle", "record", "empty"])
def test_refused_golden_leaves_nothing(
    store: GoldenStore, write_golden: Write, write_record: Write, tmp_path: Path, toy, damage: str
):
    content = {
        "truncated": write_golden().read_bytes()[:-100],
        "pickle": b"\x80\x04\x95\x10\x00\x00\x00\x00\x00\x00\x00",
        "record": write_record().read_bytes(),
        "empty": b"",
    }[damage]
    path = tmp_path / "incoming.safetensors"
    path.write_bytes(content)
    with pytest.raises(InvalidFile, match=r"incoming\.safetensors"):
        store.put_golden(path)
    assert not store.goldens(f"{toy.name}.float32")


def test_refused_record_leaves_nothing(store: GoldenStore, write_golden: Write, write_record: Write, toy):
    with pytest.raises(InvalidFile, match="'record'"):
        store.put_record(write_golden())
    truncated = write_record()
    truncated.write_bytes(truncated.read_bytes()[:-8])
    with pytest.raises(InvalidFile, match="truncated"):
        store.put_record(truncated)
    assert not [record for record in store.records() if record.problem == toy.name]


def test_what_is_missing_is_named(store: GoldenStore, write_golden: Write):
    name = store.put_golden(write_golden()).name
    unknown: list[tuple[type[GradassayError], Callable[[], object], str]] = [
        (NoGolden, lambda: store.golden_path("nobody.float32"), "nobody.float32"),
        (NotFound, lambda: store.golden_path(name, 7), "v7"),
        (NotFound, lambda: store.approve(name, 7, who="ada", why="because"), "v7"),
        (NoGolden, lambda: store.find_golden(name, channel="nightly"), "nightly"),
        (NotFound, lambda: store.record_path("0123456789abcdef0123456789abcdef"), "0123456789abcdef"),
        (NotFound, lambda: store.find_record(f"sha256:{'0' * 64}"), "sha256:000"),
        (UsageError, lambda: store.approve(name, 1, channel="latest", who="ada", why="because"), "latest"),
        (UsageError, lambda: store.approve(name, 1, channel="No/Path", who="ada", why="because"), "No/Path"),
        (UsageError, lambda: store.approve(name, 1, who=" ", why="because"), "who"),
        (UsageError, lambda: store.approve(name, 1, who="ada", why=""), "why"),
    ]
    for expected, call, text in unknown:
        with pytest.raises(expected, match=text):
            call()
    assert not store.approvals(name)


@pytest.mark.parametrize("name", ["../../escape", "my.module:problem", "a/b", "50% off's", "."])
def test_names_of_any_kind_are_kept(
    store: GoldenStore, make_toy, make_golden, tmp_path: Path, name: str, kind: str, toy
):
    path = tmp_path / "golden.safetensors"
    unique = f"{name}{toy.name}"
    make_golden(make_toy(name=unique, families={"dense": [(4,)]}, units=2)).write(path)
    stored = store.put_golden(path)
    assert stored.name == f"{unique}.float32"
    store.approve(stored.name, 1, who="ada", why="because")
    assert store.golden_path(stored.name).read_bytes() == path.read_bytes()
    assert stored.name in {version.name for version in store.goldens()}
    assert store.approvals(stored.name)[0].name == stored.name
