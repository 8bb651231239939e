"""The CPU kernel of sketch spec v1: one pass over memory, parallel over the sixteen segments."""

from __future__ import annotations

import numba
import numpy as np
from numba import types
from numba.extending import overload
from numpy.typing import NDArray

SEED = 0x601DA55A
SEGMENTS = 16
WORTH_THREADS = 1 << 18
ROW = 64

# Signs of eight neighbouring elements for every value of the byte that decides them.
_SIGNS = np.array([[-1.0 if byte >> bit & 1 else 1.0 for bit in range(8)] for byte in range(256)])
_SIGN_BIT = np.uint64(1 << 63)
_WORTH_A_BLOCK = 4


def _load(values, position):
    """The element as float64, whatever it is stored as; compiled by the overload below."""


@overload(_load, inline="always")
def _compile_load(values, position):  # noqa: ARG001
    if values.dtype == types.uint16:
        return lambda values, position: np.float64(
            np.uint32(np.uint32(values[position]) << np.uint32(16)).view(np.float32)
        )
    return lambda values, position: np.float64(values[position])


@numba.njit(inline="always")
def mix(z):
    """splitmix64 of a uint64 (Steele, Lea and Flood, 2014)."""
    z = z + np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


@numba.njit(inline="always")
def _partial_row(values, position, first, last, buckets, totals):
    """Adds elements [first, last) of one row, the first of which is values[position]."""
    hashed = mix(np.uint64(SEED) + np.uint64(first >> 6))
    for element in range(first, last):
        bucket = element & 63
        value = _load(values, position + element - first)
        if not np.isfinite(value):
            totals[2] += 1.0
            continue
        totals[0] += value * value
        totals[1] = max(totals[1], abs(value))
        negative = (hashed >> np.uint64(bucket)) & np.uint64(1)
        buckets[bucket] += -value if negative else value


@numba.njit(inline="always", fastmath={"reassoc", "contract", "nsz"})
def _whole_row(values, position, row, buckets, squares):
    """Adds the 64 elements of a row; squares [8] collects sums of squares by lane."""
    hashed = mix(np.uint64(SEED) + np.uint64(row))
    for byte in range(8):
        signs = _SIGNS[(hashed >> np.uint64(8 * byte)) & np.uint64(255)]
        for lane in range(8):
            value = _load(values, position + 8 * byte + lane)
            buckets[8 * byte + lane] += value * signs[lane]
            squares[lane] += value * value


@numba.njit(inline="always")
def _largest(values, first, last):
    """The largest magnitude of values[first:last], infinite where one of them is not finite."""
    largest = np.float64(0.0)
    finite = True
    for position in range(first, last):
        magnitude = abs(_load(values, position))
        finite &= magnitude < np.inf
        largest = max(largest, magnitude)
    return largest if finite else np.inf


@numba.njit(fastmath={"reassoc", "contract", "nsz"})
def _rows(values, position, row, rows, buckets, largest):
    """Adds whole rows as `_whole_row` does, with the largest magnitudes by element in largest [64]; returns the sum of
    squares, which is not finite where an element is not (and nothing of the rest is of use then).
    """
    squares = 0.0
    for place in range(rows):
        hashed = mix(np.uint64(SEED) + np.uint64(row + place))
        # An index that may be negative would count from the end, which no vector does.
        first = np.uint64(position + ROW * place)
        for element in range(ROW):
            value = _load(values, first + np.uint64(element))
            squares += value * value
            # Bit operations that a compiler makes vectors of, where a table of signs would be gathered.
            flip = (hashed << np.uint64(63 - element)) & _SIGN_BIT
            buckets[element] += np.uint64(value.view(np.uint64) ^ flip).view(np.float64)
            magnitude = abs(value)
            largest[element] = magnitude if magnitude > largest[element] else largest[element]
    return squares


@numba.njit
def _segment(values, runs, total, segment, sketch, totals):
    """Fills sketch[segment] and totals[segment]."""
    rows = (total + 63) // 64
    low = 64 * (rows * segment // SEGMENTS)
    high = min(total, 64 * (rows * (segment + 1) // SEGMENTS))
    buckets = np.zeros(ROW)
    mine = np.zeros(3)
    squares = np.zeros(8)
    before = 0
    for run in range(runs.shape[0]):
        begin = max(runs[run, 0], low)
        end = min(runs[run, 0] + runs[run, 1], high)
        position = before + begin - runs[run, 0]
        before += runs[run, 1]
        element = begin
        while element < end:
            rows = (end - element) >> 6
            if element & 63 == 0 and rows >= _WORTH_A_BLOCK:
                trial = buckets.copy()
                by_element = np.zeros(ROW)
                square = _rows(values, position, element >> 6, rows, trial, by_element)
                if square < np.inf:
                    buckets[:] = trial
                    mine[0] += square
                    mine[1] = max(mine[1], by_element.max())
                    element += rows << 6
                    position += rows << 6
                    continue
            last = min(end, ((element >> 6) + 1) << 6)
            width = last - element
            whole = width == ROW
            if whole:
                largest = _largest(values, position, position + width)
                whole = largest < np.inf
                if whole:
                    mine[1] = max(mine[1], largest)
                    _whole_row(values, position, element >> 6, buckets, squares)
            if not whole:
                _partial_row(values, position, element, last, buckets, mine)
            element = last
            position += width
    for lane in range(8):
        mine[0] += squares[lane]
    sketch[segment] = buckets
    totals[segment] = mine


@numba.njit(parallel=True, cache=True)
def measure_signed(values, runs, total):
    """The sketch [16, 64] and per-segment [16, 3] sum of squares, largest magnitude and non-finite count, total > 1024.

    values: 1-D float32 or float64, the runs' elements one after the other. runs: [n, 2] int64 first element and length.
    """
    sketch = np.zeros((SEGMENTS, ROW))
    totals = np.zeros((SEGMENTS, 3))
    for segment in numba.prange(SEGMENTS):
        _segment(values, runs, total, segment, sketch, totals)
    return sketch, totals


@numba.njit(cache=True)
def measure_serially(values, runs, total):
    """As `measure_signed`, on one thread: loads in less time, and may be loaded before a fork."""
    sketch = np.zeros((SEGMENTS, ROW))
    totals = np.zeros((SEGMENTS, 3))
    for segment in range(SEGMENTS):
        _segment(values, runs, total, segment, sketch, totals)
    return sketch, totals


def measure_on_all_threads(
    values: NDArray[np.generic], runs: NDArray[np.int64], total: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """`measure_signed`, or `measure_serially` where numba may use one thread only (NUMBA_NUM_THREADS=1) or where waking
    threads costs more than they save.
    """
    # Asking numba.get_num_threads() would start the threads.
    alone = numba.config.NUMBA_NUM_THREADS == 1 or values.shape[0] < WORTH_THREADS  # type: ignore[attr-defined]
    kernel = measure_serially if alone else measure_signed
    sketch, totals = kernel(values, runs, total)
    return sketch, totals
