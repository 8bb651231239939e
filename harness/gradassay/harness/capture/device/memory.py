"""Reads of a shard in Triton: which rows are whose, and where they lie in memory."""

from __future__ import annotations

import triton
import triton.language as tl

ROW = tl.constexpr(64)
SEGMENTS = tl.constexpr(16)


@triton.jit
def stretch(pieces, number, first, end, rows, segment, chunk, table: tl.constexpr):
    """Of a piece: first row, last row, first element, end, and what leads from an element's index to its place in memory.

    Arguments as in `add_rows`; without a table there is one piece, the program's share of elements [first, end).
    """
    if table:
        first = tl.load(pieces + 3 * number)
        end = tl.load(pieces + 3 * number + 1)
        shift = tl.load(pieces + 3 * number + 2)
        row = first // ROW
        last = (end + ROW - 1) // ROW
    else:
        first, end, rows = first.to(tl.int64), end.to(tl.int64), rows.to(tl.int64)
        shift = -first
        row = tl.maximum(first // ROW, rows * segment // SEGMENTS) + tl.program_id(0).to(tl.int64) * chunk
        last = tl.minimum((end + ROW - 1) // ROW, rows * (segment + 1) // SEGMENTS)
        last = tl.minimum(last, row + chunk)
        end = tl.minimum(end, last * ROW)
    return row, last, first, end, shift


@triton.jit
def whole_rows(row, last, first, end, step: tl.constexpr):
    """First and last of rows [row, last) that lie in [first, end) as a whole, as many as are a multiple of `step`."""
    begin = tl.minimum((first + ROW - 1) // ROW, last)
    begin = tl.maximum(begin, row)
    inside = tl.maximum(tl.minimum(end // ROW, last) - begin, 0)
    return begin, begin + inside // step * step


@triton.jit
def loaded(
    values,
    row,
    first,
    end,
    shift,
    rows: tl.constexpr,
    vector: tl.constexpr,
    aligned: tl.constexpr,
    whole: tl.constexpr,
):
    """[rows, 64 // vector, vector]: elements of rows from `row` on, 0 outside of [first, end).

    whole: there is nothing outside. aligned: all begins and ends at multiples of `vector` elements.
    """
    start = row * ROW + shift
    if aligned:
        start = tl.multiple_of(start, vector)
    vectors = tl.arange(0, rows)[:, None, None] * ROW + tl.arange(0, ROW // vector)[None, :, None] * vector
    place = vectors + tl.arange(0, vector)[None, None, :]
    if whole:
        return tl.load(values + start + place)
    before = tl.maximum(first - row * ROW, 0).to(tl.int32)
    after = tl.minimum(end - row * ROW, rows * ROW).to(tl.int32)
    # One answer for a vector keeps it one access to memory.
    asked = vectors if aligned else place
    inside = tl.broadcast_to((asked >= before) & (asked < after), place.shape)
    return tl.load(values + start + place, mask=inside, other=0.0)
