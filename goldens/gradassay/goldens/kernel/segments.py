"""A parameter's sixteen segments, shared among threads."""

from __future__ import annotations

import zlib
from itertools import pairwise
from pathlib import Path
from typing import Any

import numba
import numpy as np
from numpy.typing import NDArray

from gradassay.goldens.kernel import threads
from gradassay.goldens.kernel.lanes import ROW
from gradassay.goldens.kernel.rows import TOGETHER, add_part, add_rows

SEGMENTS = 16
# Segments that a thread takes before it asks for more: few, as one of them may have to share its core.
_AT_ONCE = 2


def _for_segments(sources: int) -> Any:
    """Compiled code is kept by this file's time and by `sources`, a number of all files that it is made of."""

    @numba.njit(cache=True, nogil=True)
    def add_segments(values, runs, total, first, last, sketch, totals):
        """Adds segments [first, last) of a parameter of total > 1024 elements to its sketch [16, 64] and to totals [16, 3]:
        of each the sum of squares, the largest magnitude and the non-finite count.

        values: 1-D float32, float64 or bfloat16 bits, the runs' elements one after the other. runs: [n, 2] int64 first
        element and length.
        """
        _ = sources
        rows = (total + 63) // 64
        bounds = np.minimum(64 * (rows * np.arange(SEGMENTS + 1) // SEGMENTS), total)
        signs = np.empty(TOGETHER, np.uint64)
        segment, before = first, 0
        for run in range(runs.shape[0]):
            start, length = runs[run, 0], runs[run, 1]
            element, end = max(start, bounds[first]), min(start + length, bounds[last])
            while element < end:
                # Most runs go on where the one before them ended.
                while element < bounds[segment]:
                    segment -= 1
                while element >= bounds[segment + 1]:
                    segment += 1
                until = min(end, bounds[segment + 1])
                _stretch(values, before + element - start, element, until, signs, sketch[segment], totals[segment])
                element = until
            before += length

    return add_segments


def _for_all(sources: int) -> Any:
    @numba.njit(cache=True, nogil=True)
    def add_all(values, runs, total, sketch, totals):
        """Adds all segments to sketch [1024] and, together, to totals [3]; arguments as of `add_segments`."""
        _ = sources
        parts = np.zeros((SEGMENTS, 3))
        add_segments(values, runs, total, 0, SEGMENTS, sketch.reshape(SEGMENTS, ROW), parts)
        fold(parts, totals)

    return add_all


@numba.njit
def _stretch(values, position, element, end, signs, buckets, totals):
    """Adds elements [element, end), which lie in one segment, to its buckets [64] and totals [3]."""
    while element < end:
        added = 0
        if element & 63 == 0:
            added = add_rows(values, position, element >> 6, (end - element) >> 6, signs, buckets, totals) << 6
        if added == 0:
            # The ends of a run, or a row with an element that is not finite: up to the end of the row.
            added = min(end, ((element >> 6) + 1) << 6) - element
            add_part(values, position, element, element + added, buckets, totals)
        element += added
        position += added


@numba.njit(cache=True)
def fold(parts, totals):
    """Adds totals of segments, [16, 3], to those of their parameter, [3]."""
    for part in range(parts.shape[0]):
        totals[0] += parts[part, 0]
        totals[1] = max(totals[1], parts[part, 1])
        totals[2] += parts[part, 2]


_SOURCES = zlib.crc32(b"".join(path.read_bytes() for path in sorted(Path(__file__).parent.glob("*.py"))))
add_segments, add_all = _for_segments(_SOURCES), _for_all(_SOURCES)


def add(
    values: NDArray[np.generic],
    runs: NDArray[np.int64],
    total: int,
    sketch: NDArray[np.float64],
    totals: NDArray[np.float64],
) -> None:
    """Adds all segments to sketch [1024] and, together, to totals [3], on as many threads as are worth waking."""
    if not threads.worth(values.shape[0]):
        add_all(values, runs, total, sketch, totals)
        return
    buckets, parts = sketch.reshape(SEGMENTS, ROW), np.zeros((SEGMENTS, 3))
    threads.each(
        lambda first, last: add_segments(values, runs, total, first, last, buckets, parts),
        pairwise(range(0, SEGMENTS + 1, _AT_ONCE)),
        elements=values.shape[0],
    )
    fold(parts, totals)
