"""A parameter's sixteen segments, shared among threads."""

from __future__ import annotations

from itertools import pairwise

import numba
import numpy as np
from numpy.typing import NDArray

from gradassay.goldens.kernel import threads
from gradassay.goldens.kernel.rows import add_part, add_rows

SEGMENTS = 16
WORTH_THREADS = 1 << 21


@numba.njit
def _segment(values, runs, total, segment, buckets, totals, squares):
    """Adds one segment to its buckets [64] and totals [3]."""
    rows = (total + 63) // 64
    low = 64 * (rows * segment // SEGMENTS)
    high = min(total, 64 * (rows * (segment + 1) // SEGMENTS))
    before = 0
    for run in range(runs.shape[0]):
        element = max(runs[run, 0], low)
        end = min(runs[run, 0] + runs[run, 1], high)
        position = before + element - runs[run, 0]
        before += runs[run, 1]
        while element < end:
            added = 0
            if element & 63 == 0:
                added = add_rows(values, position, element >> 6, (end - element) >> 6, buckets, totals, squares) << 6
            if added == 0:
                # The ends of a run, or a block with an element that is not finite: up to the end of the row.
                added = min(end, ((element >> 6) + 1) << 6) - element
                add_part(values, position, element, element + added, buckets, totals)
            element += added
            position += added


@numba.njit(cache=True, nogil=True)
def add_segments(values, runs, total, first, last, sketch, totals, squares):
    """Adds segments [first, last) of a parameter of total > 1024 elements to its sketch [16, 64] and totals [16, 3].

    values: 1-D float32, float64 or bfloat16 bits, the runs' elements one after the other. runs: [n, 2] int64 first element
    and length. squares: False leaves totals [:, 0] of no meaning, which saves time.
    """
    for segment in range(first, last):
        _segment(values, runs, total, segment, sketch[segment], totals[segment], squares)


def add(
    values: NDArray[np.generic],
    runs: NDArray[np.int64],
    total: int,
    sketch: NDArray[np.float64],
    totals: NDArray[np.float64],
    squares: bool,
) -> None:
    """`add_segments` of all of them, on as many threads as are worth waking."""
    parts = threads.count() if values.shape[0] >= WORTH_THREADS else 1
    if parts == 1:
        add_segments(values, runs, total, 0, SEGMENTS, sketch, totals, squares)
        return
    bounds = [SEGMENTS * part // parts for part in range(parts + 1)]
    threads.each(
        lambda first, last: add_segments(values, runs, total, first, last, sketch, totals, squares), pairwise(bounds)
    )
