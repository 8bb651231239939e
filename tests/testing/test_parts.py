"""Parts: one file a test, whole or not there, and of one run only."""

from __future__ import annotations

import json
import os
import resource
import signal
from pathlib import Path

import pytest

from gradassay.goldens.errors import NoGolden, StorageFull
from gradassay.testing.parts import Part, Parts, error_of
from gradassay.testing.scratch import scratch_of

RUN = "run-1"
HOSTILE = "tests/test_x.py::test_y[a::b-../../../etc-\x00\udc80-<b>]"


@pytest.fixture
def parts(tmp_path: Path) -> Parts:
    return Parts(tmp_path, run=RUN)


def _part(test: str = "test_a.py::test_a", **fields: object) -> Part:
    return Part(**{"test": test, "verdict": "agree", "exit": 0, **fields})  # type: ignore[arg-type]


def test_what_was_written_is_read_again_by_any_process_of_the_run(parts: Parts, tmp_path: Path):
    first = _part(
        cell="moe-tiny ddp dp2",
        assay={"format": 1, "power": {"dense": 1.5}},
        record="a.safetensors",
        golden="golden:moe-tiny.float32@v1",
        reproduce="gradassay record",
        seconds=1.25,
    )
    error = error_of(NoGolden("none", hint="build it"))
    second = _part(HOSTILE, verdict="no-golden", exit=3, error=error)
    parts.write(second)
    parts.write(first)

    assert Parts(tmp_path, run=RUN).read() == (first, second)
    assert error == {"code": "no-golden", "message": "none", "hint": "build it"}
    assert parts.ignored() == ()


def test_every_test_and_every_comparison_of_it_has_one_file_and_a_repetition_replaces_it(parts: Parts, tmp_path: Path):
    parts.write(_part(HOSTILE, verdict="diverge", exit=1))
    parts.write(_part(HOSTILE, number=2))
    parts.write(_part(HOSTILE))

    assert [(part.number, part.verdict) for part in parts.read()] == [(1, "agree"), (2, "agree")]
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert {path.parent for path in files} == {scratch_of(tmp_path, RUN)}
    assert len(files) == 2


def test_parts_of_another_run_are_not_seen(parts: Parts, tmp_path: Path):
    other = Parts(tmp_path, run="run-2")
    other.write(_part(verdict="diverge", exit=1))
    assert parts.read() == ()
    parts.write(_part())
    assert [part.verdict for part in other.read()] == ["diverge"]

    stray = next(scratch_of(tmp_path, "run-2").glob("*.json"))
    own = next(scratch_of(tmp_path, RUN).glob("*.json"))
    own.write_bytes(stray.read_bytes())
    assert parts.read() == ()
    assert parts.ignored() == (f"{own.name} is left out: it is of run 'run-2', not of 'run-1'",)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "it is no JSON"),
        (b'{"format": 1, "kind": "part", "te', "it is no JSON"),
        (b"\xff\xfe", "it is no JSON"),
        (b"[" * 100_000, "it is no JSON"),
        (b"[]", "it was not written by gradassay"),
        (b'{"format": 1, "kind": "record"}', "it was not written by gradassay"),
        (b'{"format": 2, "kind": "part"}', "format 2 is not known to this release, which reads format 1"),
        (b'{"format": 1, "kind": "part", "run": "run-1", "test": "t", "exit": 0}', "verdict: Field required"),
        (b'{"format": 1, "kind": "part", "run": "run-1", "test": "t", "verdict": "agree", "exit": "x"}', "exit: "),
        (b'{"format": 1, "kind": "part", "run": "run-1", "test": "t", "verdict": "agree", "exit": 0}', "another test"),
    ],
)
def test_what_is_no_part_is_left_out_and_named(parts: Parts, tmp_path: Path, content: bytes, said: str):
    parts.write(_part())
    foreign = scratch_of(tmp_path, RUN) / "foreign.json"
    foreign.write_bytes(content)

    assert parts.read() == (_part(),)
    (ignored,) = parts.ignored()
    assert ignored.startswith("foreign.json is left out: ")
    assert said in ignored


def test_a_folder_in_place_of_a_part_is_left_out_too(parts: Parts, tmp_path: Path):
    (scratch_of(tmp_path, RUN) / "folder.json").mkdir(parents=True)
    assert parts.read() == ()
    assert parts.ignored() == ("folder.json is left out: it cannot be read (Is a directory)",)


def test_a_full_disk_is_said_and_leaves_the_earlier_part(parts: Parts, tmp_path: Path):
    parts.write(_part())
    before = {path: path.read_bytes() for path in tmp_path.rglob("*.json")}
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, hard))
    try:
        with pytest.raises(StorageFull, match="could not be written"):
            parts.write(_part(verdict="diverge", exit=1, assay={"x": "y" * 20_000}))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))

    assert parts.read() == (_part(),)
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before


def test_a_worker_killed_at_any_moment_leaves_whole_parts_only(parts: Parts, tmp_path: Path):
    big = {"x": "y" * 3_000_000}
    for _ in range(20):
        ready, told = os.pipe()
        child = os.fork()
        if child == 0:
            number = 0
            while True:
                number += 1
                parts.write(_part(f"test_{number}", assay=big))
                os.write(told, b".")
        os.read(ready, 1)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        os.close(ready)
        os.close(told)
    found = parts.read()
    assert found
    assert all(part.assay == big for part in found)
    assert parts.ignored() == ()


def test_a_test_that_was_lost_is_an_error_beside_what_it_had_found(parts: Parts):
    parts.write(_part("seen", assay={"format": 1}))
    parts.lost("seen", "worker gw0 crashed")
    parts.lost("unseen", "worker gw0 crashed")

    seen, unseen = parts.read()
    assert (seen.verdict, seen.exit, seen.assay) == ("error", 4, {"format": 1})
    assert (unseen.verdict, unseen.exit, unseen.assay) == ("error", 4, None)
    assert seen.error == unseen.error
    assert seen.error is not None
    assert json.dumps(seen.error["message"]) == '"worker gw0 crashed"'
