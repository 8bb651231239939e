from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gradassay.goldens.sketch import segment_elements
from gradassay.harness.capture.device.places import LEAST_ROWS, MOST_PROGRAMS, Grid, filled, grid_of, table_of


def shares(grid: Grid, runs: np.ndarray, total: int) -> list[list[tuple[int, int, int]]]:
    """Of every program, in the order of the grid, the stretches that it adds: first element, end, way to memory."""
    if grid.pieces is not None:
        assert grid.ends is not None
        return [list(map(tuple, grid.pieces[a:b].tolist())) for a, b in zip(grid.ends, grid.ends[1:], strict=False)]
    (first, length), rows = runs[0].tolist(), -(-total // 64)
    found = []
    for segment in range(grid.segment, grid.segment + grid.segments):
        for program in range(grid.programs):
            row = max(first // 64, rows * segment // 16) + program * grid.chunk
            last = min(-(-(first + length) // 64), rows * (segment + 1) // 16, row + grid.chunk)
            stretch = (max(first, row * 64), min(first + length, last * 64), -first)
            found.append([stretch] if row < last else [])
    return found


def check(runs: np.ndarray, total: int) -> Grid:
    """The grid, after a look whether every element has its program, the one of its segment, and its place."""
    grid = grid_of(runs, total)
    memory = np.concatenate([np.arange(first, first + length) for first, length in runs.tolist()])
    added = np.zeros(len(memory), dtype=int)
    bounds = segment_elements(total)
    found = shares(grid, runs, total)
    assert len(found) == grid.segments * grid.programs
    for number, stretches in enumerate(found):
        segment = grid.segment + number // grid.programs
        for first, end, shift in stretches:
            assert bounds[segment] <= first < end <= bounds[segment + 1]
            assert np.array_equal(memory[first + shift : end + shift], np.arange(first, end))
            added[first + shift : end + shift] += 1
    assert (added == 1).all()
    return grid


@given(data=st.data(), total=st.integers(1025, 400_000))
@settings(deadline=None, max_examples=100)
def test_every_element_of_a_stretch_has_one_program(data: st.DataObject, total: int) -> None:
    first = data.draw(st.integers(0, total - 1))
    length = data.draw(st.integers(1, total - first))
    grid = check(np.array([[first, length]]), total)
    assert grid.pieces is None


@given(data=st.data(), total=st.integers(1025, 200_000))
@settings(deadline=None, max_examples=100)
def test_every_element_of_several_runs_has_one_program(data: st.DataObject, total: int) -> None:
    cuts = sorted(data.draw(st.sets(st.integers(0, total), min_size=4, max_size=60)))
    runs = np.array([[a, b - a] for a, b in zip(cuts[::2], cuts[1::2], strict=False)])
    order = data.draw(st.permutations(range(len(runs))))
    grid = check(runs[order], total)
    assert grid.pieces is not None


def test_large_parameters_are_shared_out_evenly() -> None:
    grid = check(np.array([[0, 4_000_000]]), 4_000_000)
    assert grid.programs == -(-4_000_000 // 64 // 16 // LEAST_ROWS)
    huge = grid_of(np.array([[0, 10**10]]), 10**10)
    assert huge.programs <= MOST_PROGRAMS
    assert huge.programs * huge.chunk * 64 * 16 >= 10**10
    table = check(np.array([[row * 6000, 3000] for row in range(500)]), 3_000_000)
    assert table.ends is not None
    loads = np.diff(np.cumsum(np.concatenate(([0], np.diff(table.pieces[:, :2], axis=1)[:, 0])))[table.ends])
    assert loads.max() < 1.5 * loads.mean()


@pytest.mark.parametrize(
    ("runs", "aligned"),
    [([[0, 4096]], 8), ([[8, 4000]], 8), ([[4, 4000]], 4), ([[0, 4094]], 2), ([[1, 8]], 1), ([[0, 8], [100, 8]], 4)],
)
def test_alignment_is_that_of_all_ends(runs: list[list[int]], aligned: int) -> None:
    assert grid_of(np.array(runs), 5000).aligned == aligned


def test_runs_in_memory() -> None:
    assert table_of(np.array([[10, 5], [100, 7], [50, 1]])).tolist() == [[10, 15, -10], [100, 107, -95], [50, 51, -38]]
    assert filled(np.array([[10, 0], [100, 7]])).tolist() == [[100, 7]]
    assert filled(np.array([[10, 0]])).shape == filled(np.empty((0, 2), dtype=np.int64)).shape == (0, 2)
