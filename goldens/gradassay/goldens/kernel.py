"""The CPU kernel of sketch spec v1: one pass over memory, the sixteen segments shared among threads."""

from __future__ import annotations

from itertools import pairwise

import numba
import numpy as np
from numba import types
from numba.extending import overload
from numpy.typing import NDArray

from gradassay.goldens import threads
from gradassay.goldens.prefetch import prefetch

SEED = 0x601DA55A
SEGMENTS = 16
ROW = 64
WORTH_THREADS = 1 << 21

# As many rows as the caches closest to a core hold while they are read three times.
_BLOCK = 32
# Rows between what is added and what is asked of memory meanwhile.
_AHEAD = 64
_SIGN_BIT = np.uint64(1 << 63)
_SIGN_BIT_32 = np.uint32(1 << 31)
_BELOW_SIGN_32 = np.uint32((1 << 31) - 1)
_INFINITY_32 = np.uint32(0x7F800000)


@numba.njit(inline="always")
def mix(z):
    """splitmix64 of a uint64 (Steele, Lea and Flood, 2014)."""
    z = z + np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


def _bits(values, position):
    """An element's bits as float32, of float32 or of the upper half of one; compiled by the overload below."""


@overload(_bits, inline="always")
def _compile_bits(values, position):  # noqa: ARG001
    if values.dtype == types.uint16:
        return lambda values, position: np.uint32(np.uint32(values[position]) << np.uint32(16))
    return lambda values, position: np.float32(values[position]).view(np.uint32)


def _load(values, position):
    """The element as float64, whatever it is stored as; compiled by the overload below."""


@overload(_load, inline="always")
def _compile_load(values, position):  # noqa: ARG001
    if values.dtype == types.uint16:
        return lambda values, position: np.float64(_bits(values, position).view(np.float32))
    return lambda values, position: np.float64(values[position])


@numba.njit(inline="always")
def _part_of_row(values, position, first, last, buckets, totals):
    """Adds elements [first, last) of one row, the first of which is values[position], finite or not."""
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
def _squares(values, first, elements):
    """The sum of squares of values[first : first + elements]."""
    squares = 0.0
    for element in range(elements):
        value = _load(values, first + np.uint64(element))
        squares += value * value
    return squares


def _add_rows(values, first, row, rows, buckets):
    """Adds whole rows, the first of which is values[first:]; signs are bits, since compilers make vectors of that."""


@overload(_add_rows, inline="always")
def _compile_add_rows(values, first, row, rows, buckets):  # noqa: ARG001
    def add(values, first, row, rows, buckets):
        for place in range(rows):
            hashed = mix(np.uint64(SEED) + np.uint64(row + place))
            for element in range(ROW):
                flip = (hashed << np.uint64(63 - element)) & _SIGN_BIT
                value = _load(values, first + np.uint64(ROW * place + element))
                buckets[element] += np.uint64(value.view(np.uint64) ^ flip).view(np.float64)

    def add_32(values, first, row, rows, buckets):
        # Twice as many signs fit into a vector before the values are widened.
        for place in range(rows):
            hashed = mix(np.uint64(SEED) + np.uint64(row + place))
            ahead = first + np.uint64(ROW * (place + _AHEAD))
            for line in range(4):
                prefetch(values, ahead + np.uint64(16 * line))  # type: ignore[call-arg]
            for half in range(2):
                signs = np.uint32(hashed >> np.uint64(32 * half))
                start = first + np.uint64(ROW * place + 32 * half)
                for element in range(32):
                    flip = (signs << np.uint32(31 - element)) & _SIGN_BIT_32
                    value = np.uint32(_bits(values, start + np.uint64(element)) ^ flip).view(np.float32)
                    buckets[32 * half + element] += np.float64(value)

    return add if values.dtype == types.float64 else add_32


def _largest(values, first, elements):
    """The largest magnitude of values[first : first + elements], infinite where one of them is not finite."""


@overload(_largest, inline="always")
def _compile_largest(values, first, elements):  # noqa: ARG001
    def largest(values, first, elements):
        found = 0.0
        finite = True
        for element in range(elements):
            magnitude = abs(values[first + np.uint64(element)])
            finite &= magnitude < np.inf
            found = max(found, magnitude)
        return found if finite else np.inf

    def largest_32(values, first, elements):
        # Magnitudes are ordered as their bits are, with infinity and then NaN at the end.
        found = np.uint32(0)
        for element in range(elements):
            found = max(found, np.uint32(_bits(values, first + np.uint64(element)) & _BELOW_SIGN_32))
        return np.float64(np.uint32(found).view(np.float32)) if found < _INFINITY_32 else np.inf

    return largest if values.dtype == types.float64 else largest_32


@numba.njit(fastmath={"reassoc", "contract", "nsz"})
def _rows(values, position, row, rows, buckets, totals, squares):
    """Adds whole rows; returns how many, less than all of them where the next block has an element that is not finite."""
    trial = np.empty(ROW)
    done = 0
    while done < rows:
        block = min(_BLOCK, rows - done)
        # An index that may be negative would count from the end, which no vector does.
        first = np.uint64(position + ROW * done)
        # The pass that computes most comes first, while the block comes from memory.
        trial[:] = buckets
        _add_rows(values, first, row + done, block, trial)
        largest = _largest(values, first, ROW * block)
        if largest == np.inf:
            return done
        buckets[:] = trial
        if squares:
            totals[0] += _squares(values, first, ROW * block)
        totals[1] = max(totals[1], largest)
        done += block
    return done


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
                added = _rows(values, position, element >> 6, (end - element) >> 6, buckets, totals, squares) << 6
            if added == 0:
                # The ends of a run, or a block with an element that is not finite: up to the end of the row.
                added = min(end, ((element >> 6) + 1) << 6) - element
                _part_of_row(values, position, element, element + added, buckets, totals)
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
