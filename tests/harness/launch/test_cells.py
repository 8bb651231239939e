"""Cells of a matrix into a folder."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from gradassay.goldens.layout import Layout
from gradassay.harness.cell import Cell
from gradassay.harness.launch import Pool, record_name, run_cells


class Told:
    """A progress that remembers what it was told."""

    def __init__(self) -> None:
        self.heard: list[object] = []

    @contextmanager
    def stage(self, title: str, total: int) -> Iterator[object]:
        self.heard.append((title, total))
        yield lambda label, ok=True: self.heard.append((label, ok))
        self.heard.append("over")


def test_names_bear_everything_that_tells_cells_apart() -> None:
    cell = Cell(problem="moe-tiny", strategy="ddp", layout=Layout(dp=2))
    other = Cell(problem="moe-tiny", strategy="ddp", layout=Layout(dp=2), options={"sync": "all"}, framework="x==1")
    assert record_name(cell) == "moe-tiny_ddp_dp2_float32.safetensors"
    assert record_name(other) == "moe-tiny_ddp@x==1_dp2_float32_sync=all.safetensors"
    assert "/" not in record_name(Cell(problem="a/b:c", strategy="ddp", layout=Layout()))
    scales = ("2*dp", "2/dp", "2**dp", "2")
    faults = [replace(cell, fault=f"uniform:scale={scale}") for scale in scales]
    assert len(set(map(record_name, faults))) == len(scales)


@pytest.mark.dist
def test_failures_are_outcomes_and_the_order_is_kept(warm_pool: Pool, tmp_path: Path) -> None:
    cells = [Cell(problem="no-such-problem", strategy="ddp", layout=Layout(dp=dp)) for dp in (2, 1)]
    told = Told()
    outcomes = run_cells(cells, tmp_path, warm_pool, progress=told, title="references")
    assert [outcome.cell for outcome in outcomes] == cells
    assert all(outcome.failure is not None and "no-such-problem" in outcome.failure.reason for outcome in outcomes)
    assert told.heard[0] == ("references", 2)
    assert told.heard[-1] == "over"
    assert {(str(cell), False) for cell in cells} == set(told.heard[1:-1])
