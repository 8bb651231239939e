"""Sums on a GPU: shards are added to them without waiting for it."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from functools import lru_cache

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gradassay.goldens.sketch import BUCKETS, ROW, SEGMENTS
from gradassay.harness.capture.device.kernels import ROOM, add_elements, add_rows, add_up
from gradassay.harness.capture.device.places import TILE, Grid, filled, grid_of, table_of

NUMBERS = BUCKETS + 3 * SEGMENTS
"""Of a parameter: its sketch, and of each segment the sum of squares, the largest magnitude and the non-finite count."""
_KINDS = (torch.float32, torch.float64, torch.bfloat16, torch.float16)
# Bytes of a vector, the most that a thread reads at once.
_VECTOR = 16
_KEPT_TABLES = 512


class Numbers:
    """[rows, NUMBERS] float64 on a device, all 0 at first."""

    def __init__(self, rows: int, device: torch.device) -> None:
        self._numbers = torch.zeros((rows, NUMBERS), dtype=torch.float64, device=device)
        if device.type == "cuda":
            # Backward passes add from streams of their own.
            torch.cuda.current_stream(device).synchronize()

    def add(self, row: int, values: Tensor, runs: NDArray[np.int64], total: int) -> None:
        """Adds a shard to a row, as `gradassay.goldens.sketch.add_runs` does. The host does not wait for it, unless there
        are several runs that were not seen before.

        values: 1-D on the device, the elements of runs [n, 2] one after the other, which fit the parameter and them.
        total: size of the whole parameter.
        """
        runs = filled(runs)
        if not len(runs):
            return
        values = values.detach().contiguous()
        values = values if values.dtype in _KINDS else values.float()
        with on(values):
            if total <= BUCKETS:
                _add_elements(self._numbers[row], values, runs)
            else:
                _add_rows(self._numbers[row], values, runs, total)

    def read(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Sketches [rows, 1024] and totals [rows, 16, 3] on the host, by one copy that waits for all that was added."""
        if self._numbers.is_cuda:
            torch.cuda.synchronize(self._numbers.device)
        numbers: NDArray[np.float64] = self._numbers.cpu().numpy()
        return numbers[:, :BUCKETS], numbers[:, BUCKETS:].reshape(-1, SEGMENTS, 3)


def on(values: Tensor) -> AbstractContextManager[object]:
    """Makes the GPU of `values` the one on which kernels start; their memory is not used again before these have ended."""
    if not values.is_cuda:
        return nullcontext()
    values.record_stream(torch.cuda.current_stream(values.device))
    return torch.cuda.device(values.device)


def _add_elements(numbers: Tensor, values: Tensor, runs: NDArray[np.int64]) -> None:
    first, length = runs[0].tolist()
    table = len(runs) > 1
    pieces = _elements_table(runs.tobytes(), values.device) if table else numbers
    add_elements[(1,)](values, pieces, numbers, first, first + length, len(runs), table=table)


def _add_rows(numbers: Tensor, values: Tensor, runs: NDArray[np.int64], total: int) -> None:
    table = len(runs) > 1
    if table:
        grid, pieces, ends = _rows_table(runs.tobytes(), total, values.device)
    else:
        grid, pieces, ends = grid_of(runs, total), numbers, numbers
    first, length = runs[0].tolist()
    vector = _VECTOR // values.element_size()
    partial = torch.empty((grid.segments * grid.programs, ROOM.value), dtype=torch.float64, device=values.device)
    add_rows[(grid.programs, grid.segments)](
        values,
        pieces,
        ends,
        partial,
        first,
        first + length,
        -(-total // ROW),
        grid.segment,
        grid.chunk,
        table=table,
        aligned=grid.aligned % vector == 0,
        vector=vector,
        tile=TILE,
        together=grid.together,
    )
    add_up[(grid.segments,)](partial, numbers, grid.programs, grid.segment, block=16)


@lru_cache(maxsize=_KEPT_TABLES)
def _rows_table(runs: bytes, total: int, device: torch.device) -> tuple[Grid, Tensor, Tensor]:
    """How runs are shared out, with both tables on the device: every step shows the same ones."""
    grid = grid_of(_unpacked(runs), total)
    assert grid.pieces is not None
    assert grid.ends is not None
    return grid, torch.from_numpy(grid.pieces).to(device), torch.from_numpy(grid.ends).to(device)


@lru_cache(maxsize=_KEPT_TABLES)
def _elements_table(runs: bytes, device: torch.device) -> Tensor:
    return torch.from_numpy(table_of(_unpacked(runs))).to(device)


def _unpacked(runs: bytes) -> NDArray[np.int64]:
    return np.frombuffer(runs, dtype=np.int64).reshape(-1, 2)
