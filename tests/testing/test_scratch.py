"""The folder that goes with a run: of a living one it stays, of a killed one the next run removes it."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from gradassay.goldens.errors import StoreError
from gradassay.testing.parts import Part, Parts
from gradassay.testing.scratch import FOLDER, new_run, scratch, scratch_of


def _write(folder: Path, run: str) -> None:
    Parts(folder, run=run).write(Part(test="t", verdict="agree", exit=0))


def test_it_is_there_during_the_run_and_gone_after_it(tmp_path: Path):
    run = new_run()
    with scratch(tmp_path, run) as own:
        assert own == scratch_of(tmp_path, run)
        _write(tmp_path, run)
        assert len(list(own.iterdir())) == 1
    assert [path.name for path in (tmp_path / FOLDER).iterdir()] == ["guard"]
    assert new_run() != run


def test_two_runs_into_one_folder_do_not_touch_each_other(tmp_path: Path):
    with scratch(tmp_path, "first"):
        _write(tmp_path, "first")
        with scratch(tmp_path, "second"):
            _write(tmp_path, "second")
            assert len(Parts(tmp_path, run="first").read()) == 1
        assert len(Parts(tmp_path, run="first").read()) == 1
        assert Parts(tmp_path, run="second").read() == ()


def test_what_a_killed_run_left_is_removed_by_the_next(tmp_path: Path):
    child = os.fork()
    if child == 0:
        with scratch(tmp_path, "dead"):
            _write(tmp_path, "dead")
            os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(child, 0)
    records = tmp_path / "records"
    records.mkdir()
    (records / "kept.safetensors").write_bytes(b"record")
    assert scratch_of(tmp_path, "dead").exists()

    with scratch(tmp_path, "next"):
        assert not scratch_of(tmp_path, "dead").exists()
    assert (records / "kept.safetensors").read_bytes() == b"record"
    assert [path.name for path in (tmp_path / FOLDER).iterdir()] == ["guard"]


def test_an_interrupted_run_leaves_nothing(tmp_path: Path):
    def interrupted() -> None:
        with scratch(tmp_path, "run"):
            _write(tmp_path, "run")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert [path.name for path in (tmp_path / FOLDER).iterdir()] == ["guard"]


def test_a_folder_that_cannot_be_made_is_said(tmp_path: Path):
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(StoreError, match="file"), scratch(tmp_path / "file", "run"):
        pass
