"""The commands that a failure prints are the ones that the command line takes."""

from __future__ import annotations

import shlex

import pytest
import typer.testing

from gradassay.cli.cells import check_cell
from gradassay.cli.main import app
from gradassay.goldens.layout import Layout
from gradassay.harness.cell import Cell
from gradassay.testing.reproduce import diff_command, record_command

CELLS = [
    Cell(problem="moe-tiny", strategy="ddp", layout=Layout(dp=2)),
    Cell(
        problem="moe-tiny",
        strategy="fsdp2",
        layout=Layout(dp=4, ep=2, accum=3),
        dtype="bfloat16",
        fault="uniform:expert:scale=1/dp",
        options={"reshard": "a b"},
        full=True,
        stages=("local", "reduced", "clipped", "update"),
        steps=2,
        learning_rate=0.1,
        max_norm=1.0,
    ),
]


@pytest.mark.parametrize("cell", CELLS, ids=str)
def test_the_command_records_the_same_cell(cell: Cell, monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[Cell] = []
    monkeypatch.setattr("gradassay.cli.record.run_cell", lambda session, cell, out, deadline_s: ran.append(cell))
    words = shlex.split(record_command(cell, deadline_s=30))
    done = typer.testing.CliRunner().invoke(app, words[1:])

    assert done.exit_code == 0, done.output
    assert ran == [cell]
    check_cell(cell)


def test_a_store_is_named_and_its_password_is_not() -> None:
    assert diff_command("golden:x@v1", "run", store="/a b", service=False) == (
        "gradassay --store '/a b' diff golden:x@v1 run"
    )
    assert diff_command("golden:x@v1", "run", store="https://ada:secret@host", service=True) == (
        "gradassay --url https://host diff golden:x@v1 run"
    )
    assert diff_command("/goldens/golden.safetensors", "run", store="/a", service=False) == (
        "gradassay diff /goldens/golden.safetensors run"
    )
