"""Rows of 64 elements, whole ones or parts of one, added to the buckets of their segment."""

from __future__ import annotations

import numba
import numpy as np

from gradassay.goldens.kernel.elements import SEED, mix, narrow
from gradassay.goldens.kernel.lanes import ROW
from gradassay.goldens.kernel.vectors import add_up

# Rows that are added up before they are widened: the spec allows 256 in float32, but rounding grows with them.
TOGETHER = 8
# Below this, sums of so many float32 stay finite.
_LIMIT = float(np.finfo(np.float32).max) / TOGETHER
# Between these, squares of float32 are neither subnormal nor infinite.
_LEAST, _MOST = 1e-12, 1e12


@numba.njit
def add_rows(values, position, row, rows, signs, buckets, totals):
    """Adds whole rows, the first of which is values[position:]; returns how many, less than all of them where the next one
    has an element that is not finite. signs: room for those of TOGETHER rows, uint64.
    """
    # Rows before `single` are added one by one: among them are elements that are not finite, or too large to be added up.
    done = single = 0
    while done < rows:
        together = 1 if done < single else min(TOGETHER, rows - done)
        limit = _LIMIT if together > 1 else np.inf
        for one in range(together):
            signs[one] = mix(np.uint64(SEED) + np.uint64(row + done + one))
        # An index that may be negative would count from the end, which no vector does.
        first = np.uint64(position + ROW * done)
        found, squared = add_up(values, first, signs, together, limit, buckets)  # type: ignore[call-arg, var-annotated]
        largest = np.float64(found)
        if not largest < limit:
            if together == 1:
                return done
            single = done + together
            continue
        done += together
        totals[1] = max(totals[1], largest)
        if _LEAST < largest < _MOST:
            totals[0] += np.float64(squared)
        elif largest > 0.0:
            totals[0] += _squares(values, first, ROW * together)
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


@numba.njit(fastmath={"reassoc", "contract", "nsz"})
def _squares(values, first, elements):
    """The sum of squares of values[first : first + elements] in float64."""
    total = 0.0
    for element in range(elements):
        value = np.float64(narrow(values, first + np.uint64(element)))
        total += value * value
    return total
