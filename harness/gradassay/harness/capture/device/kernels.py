"""The Triton kernels of sketch spec v1, for parameters of more than 1024 elements and for smaller ones.

A program adds rows of one segment in float32, eight at most before they are widened to float64, and leaves its sums in a row
of its own. Another kernel adds these up in an order that depends on nothing but sizes, so results are the same every time.
Where float32 does not do, which shows in the largest magnitude, a program reads its rows again and adds them in float64.
"""

from __future__ import annotations

import triton
import triton.language as tl

from gradassay.harness.capture.device.memory import ROW, loaded, stretch, whole_rows
from gradassay.harness.capture.device.signs import flips, negated, signs_of

BUCKETS = tl.constexpr(1024)
# What a program leaves: 64 sums, the sum of squares, the largest magnitude, the non-finite count.
SQUARES = tl.constexpr(64)
LARGEST = tl.constexpr(65)
NONFINITE = tl.constexpr(66)
ROOM = tl.constexpr(72)
# Between these, float32 holds sums of eight elements, and squares that matter.
LEAST = tl.constexpr(1e-12)
MOST = tl.constexpr(1e12)
INFINITE = tl.constexpr(float("inf"))


@triton.jit
def _added(
    values,
    row,
    last,
    first,
    end,
    shift,
    sums,
    squared,
    largest,
    aligned: tl.constexpr,
    vector: tl.constexpr,
    tile: tl.constexpr,
    together: tl.constexpr,
    whole: tl.constexpr,
):
    """Adds rows [row, last), which hold [first, end), `together` tiles in float32; largest: bits of magnitudes, which are
    ordered as these are, with infinity and then NaN at the end.
    """
    number = tl.arange(0, tile * together)
    for start in range(row, last, tile * together):
        elements = loaded(values, start, first, end, shift, tile * together, vector, aligned, whole).to(tl.float32)
        signs = signs_of(start, tile * together)
        if whole:
            # Each row's signs are computed by one thread for all; and all of memory is asked for before they are shared.
            signs = tl.gather(signs, number, 0)
        signed = tl.reshape(negated(elements, flips(signs, vector)), (together, tile, ROW // vector, vector))
        sums += tl.sum(signed, axis=0).to(tl.float64)
        elements = tl.reshape(elements, (together, tile, ROW // vector, vector))
        largest = tl.maximum(largest, tl.max(elements.to(tl.int32, bitcast=True) & 0x7FFFFFFF, axis=0))
        squared += tl.sum(tl.sum(elements * elements, axis=0), axis=2).to(tl.float64)
    return sums, squared, largest


@triton.jit
def _added_exactly(
    values,
    row,
    last,
    first,
    end,
    shift,
    sums,
    squared,
    largest,
    nonfinite,
    aligned: tl.constexpr,
    vector: tl.constexpr,
    tile: tl.constexpr,
):
    """Adds rows [row, last), which hold [first, end), in float64; elements that are not finite are counted and left out."""
    for start in range(row, last, tile):
        elements = loaded(values, start, first, end, shift, tile, vector, aligned, False).to(tl.float64)
        finite = tl.abs(elements) < INFINITE
        elements = tl.where(finite, elements, 0.0)
        sums += tl.where(flips(signs_of(start, tile), vector) != 0, -elements, elements)
        squared += tl.sum(elements * elements, axis=2)
        largest = tl.maximum(largest, tl.max(tl.abs(elements), axis=2))
        nonfinite += tl.sum((~finite).to(tl.int32), axis=2)
    return sums, squared, largest, nonfinite


@triton.jit(do_not_specialize=["first", "end", "rows", "segment", "chunk"])
def add_rows(
    values,
    pieces,
    ends,
    partial,
    first,
    end,
    rows,
    segment,
    chunk,
    table: tl.constexpr,
    aligned: tl.constexpr,
    vector: tl.constexpr,
    tile: tl.constexpr,
    together: tl.constexpr,
):
    """Leaves in partial [segments, programs, ROOM] what each program of the grid (programs, segments) has added.

    values: a shard's elements, run after run. With `table`: pieces [n, 3] int64 of first element, end and what leads from
    there to memory, and of every program where its pieces end: ends [segments * programs + 1]. Else the shard is elements
    [first, end) of a parameter of `rows` rows, whose segments from `segment` on are shared out by `chunk` rows. aligned:
    pieces begin and end at multiples of `vector` elements, as they do in memory. tile: rows at once, of which `together`
    are added up in float32.
    """
    program = tl.program_id(1) * tl.num_programs(0) + tl.program_id(0)
    segment = segment + tl.program_id(1)
    low, high = 0, 1
    if table:
        low, high = tl.load(ends + program).to(tl.int32), tl.load(ends + program + 1).to(tl.int32)
    sums = tl.zeros([tile, ROW // vector, vector], tl.float64)
    squared = tl.zeros([tile, ROW // vector], tl.float64)
    largest = tl.zeros([tile, ROW // vector], tl.float64)
    nonfinite = tl.zeros([tile, ROW // vector], tl.int32)
    again = True
    if values.dtype.element_ty != tl.float64:
        bits = tl.zeros([tile, ROW // vector, vector], tl.int32)
        for number in range(low, high):
            row, last, begin, stop, shift = stretch(pieces, number, first, end, rows, segment, chunk, table)
            inner, outer = whole_rows(row, last, begin, stop, tile * together)
            sums, squared, bits = _added(
                values, inner, outer, begin, stop, shift, sums, squared, bits,
                aligned, vector, tile, together, True,
            )  # fmt: skip
            sums, squared, bits = _added(
                values, row, inner, begin, tl.minimum(stop, inner * ROW), shift, sums, squared, bits,
                aligned, vector, tile, 1, False,
            )  # fmt: skip
            sums, squared, bits = _added(
                values, outer, last, begin, stop, shift, sums, squared, bits,
                aligned, vector, tile, 1, False,
            )  # fmt: skip
        top = tl.max(tl.max(tl.max(bits, axis=2), axis=1), axis=0).to(tl.float32, bitcast=True)
        largest += top
        again = (top != 0.0) & ~((top > LEAST) & (top < MOST))
    if again:
        sums = tl.zeros([tile, ROW // vector, vector], tl.float64)
        squared = tl.zeros([tile, ROW // vector], tl.float64)
        largest = tl.zeros([tile, ROW // vector], tl.float64)
        for number in range(low, high):
            row, last, begin, stop, shift = stretch(pieces, number, first, end, rows, segment, chunk, table)
            sums, squared, largest, nonfinite = _added_exactly(
                values, row, last, begin, stop, shift, sums, squared, largest, nonfinite, aligned, vector, tile
            )
    out = partial + program.to(tl.int64) * ROOM
    buckets = tl.arange(0, ROW // vector)[:, None] * vector + tl.arange(0, vector)[None, :]
    tl.store(out + buckets, tl.sum(sums, axis=0))
    tl.store(out + SQUARES, tl.sum(tl.sum(squared, axis=1), axis=0))
    tl.store(out + LARGEST, tl.max(tl.max(largest, axis=1), axis=0))
    tl.store(out + NONFINITE, tl.sum(tl.sum(nonfinite, axis=1), axis=0).to(tl.float64))


@triton.jit(do_not_specialize=["programs", "segment"])
def add_up(partial, numbers, programs, segment, block: tl.constexpr):
    """Adds what the programs of every segment from `segment` on have left to numbers: a sketch [1024], totals [16, 3]."""
    mine = partial + tl.program_id(0).to(tl.int64) * programs * ROOM
    segment = segment + tl.program_id(0)
    buckets = tl.arange(0, ROW)
    sums = tl.zeros([block, ROW], tl.float64)
    squared = tl.zeros([block], tl.float64)
    largest = tl.zeros([block], tl.float64)
    nonfinite = tl.zeros([block], tl.float64)
    for start in range(0, programs, block):
        program = start + tl.arange(0, block)
        there = program < programs
        place = mine + program * ROOM
        sums += tl.load(place[:, None] + buckets[None, :], mask=there[:, None], other=0.0)
        squared += tl.load(place + SQUARES, mask=there, other=0.0)
        largest = tl.maximum(largest, tl.load(place + LARGEST, mask=there, other=0.0))
        nonfinite += tl.load(place + NONFINITE, mask=there, other=0.0)
    sketch = numbers + segment * ROW + buckets
    tl.store(sketch, tl.load(sketch) + tl.sum(sums, axis=0))
    _note(numbers, segment, tl.sum(squared, axis=0), tl.max(largest, axis=0), tl.sum(nonfinite, axis=0))


@triton.jit(do_not_specialize=["first", "end", "runs"])
def add_elements(values, pieces, numbers, first, end, runs, table: tl.constexpr):
    """Adds a shard of a parameter that is kept as it is to numbers, as `add_up` does; arguments as in `add_rows`."""
    place = tl.arange(0, BUCKETS)
    sums = tl.zeros([BUCKETS], tl.float64)
    squared = tl.zeros([BUCKETS], tl.float64)
    largest = tl.zeros([BUCKETS], tl.float64)
    nonfinite = tl.zeros([BUCKETS], tl.int32)
    for number in range(runs):
        if table:
            begin = tl.load(pieces + 3 * number)
            stop = tl.load(pieces + 3 * number + 1)
            shift = tl.load(pieces + 3 * number + 2)
        else:
            begin, stop = first.to(tl.int64), end.to(tl.int64)
            shift = -begin
        inside = (place >= begin) & (place < stop)
        elements = tl.load(values + place + shift, mask=inside, other=0.0).to(tl.float64)
        finite = tl.abs(elements) < INFINITE
        elements = tl.where(finite, elements, 0.0)
        sums += elements
        squared += elements * elements
        largest = tl.maximum(largest, tl.abs(elements))
        nonfinite += (~finite).to(tl.int32)
    tl.store(numbers + place, tl.load(numbers + place) + sums)
    counted = tl.sum(nonfinite, axis=0).to(tl.float64)
    _note(numbers, 0, tl.sum(squared, axis=0), tl.max(largest, axis=0), counted)


@triton.jit
def _note(numbers, segment, squared, largest, nonfinite):
    totals = numbers + BUCKETS + 3 * segment
    tl.store(totals, tl.load(totals) + squared)
    tl.store(totals + 1, tl.maximum(tl.load(totals + 1), largest))
    tl.store(totals + 2, tl.load(totals + 2) + nonfinite)
