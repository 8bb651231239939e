"""Rows of 64 elements, whole ones or parts of one, added to the buckets of their segment."""

from __future__ import annotations

import numba
import numpy as np
from numba import types
from numba.extending import overload

from gradassay.goldens.kernel.elements import SEED, largest, mix, narrow, signed
from gradassay.goldens.kernel.prefetch import prefetch

ROW = 64
# Rows that are added up before they are widened: the spec allows 256 in float32, but rounding grows with them.
TOGETHER = 8
# How far ahead of what is added memory is asked for, and in what steps.
_AHEAD = 32 * ROW
_LINE = 16


@numba.njit(fastmath={"contract", "nsz"})
def add_rows(values, position, row, rows, buckets, totals, squares):
    """Adds whole rows, the first of which is values[position:]; returns how many, less than all of them where the next one
    has an element that is not finite.
    """
    sums = _sums(values)
    done = 0
    while done < rows:
        # An index that may be negative would count from the end, which no vector does.
        first = np.uint64(position + ROW * done)
        if rows - done >= TOGETHER:
            _add_up(values, first, np.uint64(row + done), sums)
            found = largest(values, first, ROW * TOGETHER)
            if found * TOGETHER < _LIMIT:
                for bucket in range(ROW):
                    buckets[bucket] += np.float64(sums[bucket])
                _note(values, first, ROW * TOGETHER, found, totals, squares)
                done += TOGETHER
                continue
        found = largest(values, first, ROW)
        if not found < np.inf:
            return done
        hashed = mix(np.uint64(SEED) + np.uint64(row + done))
        for bucket in range(ROW):
            half = np.uint64(bucket & 32)
            buckets[bucket] += np.float64(signed(values, first + np.uint64(bucket), hashed >> half, bucket & 31))
        _note(values, first, ROW, found, totals, squares)
        done += 1
    return done


@numba.njit
def add_part(values, position, first, last, buckets, totals):
    """Adds elements [first, last) of one row, the first of which is values[position], finite or not."""
    hashed = mix(np.uint64(SEED) + np.uint64(first >> 6))
    for element in range(first, last):
        bucket = element & 63
        value = np.float64(narrow(values, position + element - first))
        if not np.isfinite(value):
            totals[2] += 1.0
            continue
        totals[0] += value * value
        totals[1] = max(totals[1], abs(value))
        negative = (hashed >> np.uint64(bucket)) & np.uint64(1)
        buckets[bucket] += -value if negative else value


# Below this, sums of float32 stay finite.
_LIMIT = float(np.finfo(np.float32).max)
_LEAST, _MOST = 1e-12, 1e12


def _sums(values):
    """[64] zeros in which rows are added up; compiled by the overload below."""


@overload(_sums, inline="always")
def _compile_sums(values):
    kind = np.float64 if values.dtype == types.float64 else np.float32
    return lambda values: np.empty(ROW, kind)  # noqa: ARG005


@numba.njit(inline="always")
def _add_up(values, first, row, sums):
    """Sums of eight rows, by pairs."""
    for line in range(ROW * TOGETHER // _LINE):
        prefetch(values, first + np.uint64(_AHEAD + _LINE * line))  # type: ignore[call-arg]
    seed = np.uint64(SEED) + row
    h0, h1, h2, h3 = mix(seed), mix(seed + np.uint64(1)), mix(seed + np.uint64(2)), mix(seed + np.uint64(3))
    h4, h5, h6, h7 = (
        mix(seed + np.uint64(4)),
        mix(seed + np.uint64(5)),
        mix(seed + np.uint64(6)),
        mix(seed + np.uint64(7)),
    )
    for half in (np.uint64(0), np.uint64(32)):
        s0, s1, s2, s3 = h0 >> half, h1 >> half, h2 >> half, h3 >> half
        s4, s5, s6, s7 = h4 >> half, h5 >> half, h6 >> half, h7 >> half
        for lane in range(32):
            place = first + half + np.uint64(lane)
            sums[half + np.uint64(lane)] = (
                (signed(values, place, s0, lane) + signed(values, place + np.uint64(64), s1, lane))
                + (signed(values, place + np.uint64(128), s2, lane) + signed(values, place + np.uint64(192), s3, lane))
            ) + (
                (signed(values, place + np.uint64(256), s4, lane) + signed(values, place + np.uint64(320), s5, lane))
                + (signed(values, place + np.uint64(384), s6, lane) + signed(values, place + np.uint64(448), s7, lane))
            )


@numba.njit(inline="always")
def _note(values, first, elements, found, totals, squares):
    totals[1] = max(totals[1], found)
    if squares:
        # Squares of float32 keep their digits as long as they are neither subnormal nor infinite.
        if _LEAST < found < _MOST:
            totals[0] += _squares(values, first, elements, np.float32(0.0))
        else:
            totals[0] += _squares(values, first, elements, 0.0)


@numba.njit(fastmath={"reassoc", "contract", "nsz"})
def _squares(values, first, elements, zero):
    """The sum of squares of values[first : first + elements], in the type of `zero`."""
    total = zero
    for element in range(elements):
        value = narrow(values, first + np.uint64(element)) + zero
        total += value * value
    return np.float64(total)
