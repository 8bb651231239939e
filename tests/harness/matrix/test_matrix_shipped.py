"""The matrices that come along cover what they promise."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from gradassay.harness.matrix import demo_matrix, golden_matrix, read_matrix
from gradassay.harness.problems import load_problem

REFERENCES = {"ddp", "fsdp2", "hsdp", "zero1"}


def test_demo_covers_the_sizes_of_the_demo() -> None:
    cells = [cell for cell in demo_matrix().cells if cell.strategy != "single"]
    assert len(cells) >= 12
    assert {cell.strategy for cell in cells} == REFERENCES
    assert {cell.problem for cell in cells} == {"moe-tiny"}
    assert {cell.layout.dp for cell in cells} >= {1, 2, 3, 4, 6}
    assert {cell.layout.ep for cell in cells} == {1, 2, 3, 4}
    assert {cell.layout.accum for cell in cells} == {1, 2, 3, 4}
    assert sum(cell.layout.world in (4, 6) for cell in cells) > len(cells) / 2


@pytest.mark.parametrize("problem", ["dense-tiny", "moe-tiny", "ragged-tiny", "moe-small"])
def test_golden_has_every_strategy_in_few_cells(problem: str) -> None:
    cells = golden_matrix(problem, "bfloat16").cells
    assert {cell.strategy for cell in cells} == {*REFERENCES, "single"}
    assert {(cell.problem, cell.dtype) for cell in cells} == {(problem, "bfloat16")}
    assert sum(cell.strategy != "single" for cell in cells) >= 8
    assert sum(cell.layout.world > 1 for cell in cells) <= 24


@pytest.mark.parametrize("problem", ["dense-tiny", "moe-tiny", "ragged-tiny", "moe-small"])
def test_golden_measures_the_noise_of_every_number_of_units(problem: str) -> None:
    cells = golden_matrix(problem, "float32").cells
    assert {cell.layout.units for cell in cells} == set(range(1, load_problem(problem).units + 1))


def test_reference_has_thirty_layouts_for_each() -> None:
    cells = read_matrix(Path(__file__).parents[3] / "ci/matrix/reference.toml").cells
    counts = Counter((cell.problem, cell.strategy, cell.dtype) for cell in cells)
    assert set(counts) == {
        (problem, strategy, dtype)
        for problem in ("dense-tiny", "moe-tiny", "ragged-tiny")
        for strategy in REFERENCES
        for dtype in ("float32", "bfloat16")
    }
    assert min(counts.values()) >= 30
