"""`gradassay record` as a process."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from gradassay.goldens.record import read_record

if TYPE_CHECKING:
    from conftest import Ran

Command = Callable[..., "Ran"]

MATRIX = """
[[matrix]]
problems = "dense-tiny"
strategies = "ddp"
dp = [1, 2]
"""


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--matrix", "typo.toml"], "--out FOLDER"),
        (["dense-tiny", "--strategy", "ddp", "--stages", "reduced,update"], "--learning-rate"),
        (["dense-tiny", "--strategy", "ddp", "--stages", "clipped"], "--max-norm"),
        (["dense-tiny", "--strategy", "ddp", "--stages", "polished"], "choose from local"),
        (["dense-tiny", "--out", "x"], "--strategy"),
        (["dense-tiny", "--framework", "transformers==4.47.1", "--out", "x"], "a script of your own"),
        (["dense-tiny", "--strategy", "nobody", "--out", "x"], "fsdp2, hsdp"),
        (["nobody", "--strategy", "ddp", "--out", "x"], "known: dense-tiny"),
        (["moe-tiny", "--strategy", "ddp", "--dp", "3", "--ep", "2", "--out", "x"], "choose ep from 1, 3"),
        (["dense-tiny", "--strategy", "ddp", "--dp", "40", "--accum", "40", "--out", "x"], "units"),
        (["dense-tiny", "-s", "ddp", "--layout", "dp2", "--dp", "2", "--out", "x"], "give one or the other"),
        (["dense-tiny", "-s", "ddp", "--layout", "dp2.gp3", "--out", "x"], "dp4.ep2.accum3"),
        (["dense-tiny", "-s", "ddp", "--dtype", "int3", "--out", "x"], "choose from float32"),
        (["dense-tiny", "-s", "ddp", "--option", "sync", "--out", "x"], "KEY=VALUE"),
        (["--matrix", "typo.toml", "--out", "x"], "strategies"),
        (["dense-tiny", "--matrix", "typo.toml", "--out", "x"], "leave PROBLEM"),
        (["dense-tiny", "-s", "ddp", "--self-assay", "--fault", "zero", "--out", "x"], "--stages local,reduced"),
    ],
)
def test_what_cannot_run_exits_2_before_any_rank_starts(
    inside: Command, tmp_path: Path, arguments: list[str], said: str
) -> None:
    (tmp_path / "typo.toml").write_text(MATRIX.replace("strategies", "strategees"))
    ran = inside("record", *arguments)

    assert (ran.code, ran.out) == (2, "")
    assert said in ran.err
    assert "Traceback" not in ran.err
    assert not (tmp_path / "x").exists()


@pytest.mark.dist
def test_a_cell_is_recorded(gradassay: Command, tmp_path: Path) -> None:
    out = tmp_path / "run.safetensors"
    ran = gradassay("record", "dense-tiny", "--strategy", "ddp", "--layout", "dp2.accum2", "--out", out, "--json")

    assert ran.code == 0, ran.err
    assert json.loads(ran.out)["file"] == str(out)
    header = read_record(out).header
    assert (header.strategy, str(header.layout)) == ("ddp", "dp2.accum2")


@pytest.mark.dist
def test_a_matrix_keeps_the_records_of_cells_that_do_not_fail(gradassay: Command, tmp_path: Path) -> None:
    (tmp_path / "matrix.toml").write_text(MATRIX)
    (tmp_path / "broken.py").write_text(
        "from dataclasses import replace\n"
        "from gradassay.harness import load_problem\n\n"
        "def problem():\n"
        "    class Broken:\n"
        "        def __getattr__(self, name):\n"
        "            if name == 'batch':\n"
        "                raise RuntimeError('the data are lost')\n"
        "            return getattr(load_problem('dense-tiny'), name)\n"
        "    return Broken()\n"
    )
    (tmp_path / "matrix.toml").write_text(MATRIX + MATRIX.replace('"dense-tiny"', '"broken:problem"'))
    ran = gradassay("record", "--matrix", "matrix.toml", "--out", "records", variables={"PYTHONPATH": str(tmp_path)})

    assert ran.code == 4, ran.err
    assert "the data are lost" in ran.err
    assert "2 of 4 records" in ran.err
    assert len(list((tmp_path / "records").glob("*.safetensors"))) == 2
