"""Where the elements of a shard lie, shared out among the programs of a kernel."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gradassay.goldens.sketch import BUCKETS, ROW, SEGMENTS, segment_elements

TILE = 16
"""Rows that a program reads at once."""
TOGETHER = 8
"""How many of these it adds up in float32; the spec allows 256, but rounding grows with them."""
LEAST_ROWS = 4 * TILE * TOGETHER
"""Of a program, so that what it leaves is little beside what it reads."""
MOST_PROGRAMS = 512
"""Of a segment. How rows are shared out depends on sizes alone: sums are the same on every GPU."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Grid:
    """Programs for a shard: `programs` for each of `segments` segments from `segment` on; together: tiles added in float32.

    One run is shared out by `chunk` rows a program; others as a table: pieces [n, 3] int64 of first element, end, and what
    leads from an element's index to its place in memory; ends [segments * programs + 1] where the pieces of a program end.
    aligned: by how many elements all of them begin and end, there and in memory: 8, 4, 2 or 1.
    """

    segment: int
    segments: int
    programs: int
    chunk: int
    together: int
    aligned: int
    pieces: NDArray[np.int64] | None = None
    ends: NDArray[np.int64] | None = None


def grid_of(runs: NDArray[np.int64], total: int) -> Grid:
    """The programs for runs [n, 2] of a parameter of `total` > 1024 elements, n > 0 and none of them empty."""
    assert total > BUCKETS
    if len(runs) > 1:
        return _of_table(runs, total)
    first, length = runs[0].tolist()
    return _of_stretch(first, length, total)


def table_of(runs: NDArray[np.int64]) -> NDArray[np.int64]:
    """[n, 3] int64: of every run the first element, the end, and what leads from an element's index to memory."""
    ends = runs.sum(axis=1)
    return np.stack((runs[:, 0], ends, np.cumsum(runs[:, 1]) - ends), axis=1)


def filled(runs: NDArray[np.int64]) -> NDArray[np.int64]:
    """The runs that hold an element."""
    return runs if len(runs) == 1 and runs[0, 1] else runs[runs[:, 1] > 0]


def _of_stretch(first: int, length: int, total: int) -> Grid:
    rows = -(-total // ROW)
    low, high = first // ROW, -(-(first + length) // ROW)
    # The segment of a row is the last one that does not begin after it.
    segment, end = (((row + 1) * SEGMENTS - 1) // rows for row in (low, high - 1))
    most = max(
        min(high, rows * (one + 1) // SEGMENTS) - max(low, rows * one // SEGMENTS) for one in range(segment, end + 1)
    )
    programs = min(MOST_PROGRAMS, -(-most // LEAST_ROWS))
    step = TILE * TOGETHER
    chunk = -(-most // (programs * step)) * step
    return Grid(
        segment=segment,
        segments=end - segment + 1,
        programs=-(-most // chunk),
        chunk=chunk,
        together=TOGETHER,
        aligned=_alignment(first, length),
    )


def _of_table(runs: NDArray[np.int64], total: int) -> Grid:
    bounds = segment_elements(total)
    pieces = _cut(table_of(runs), np.union1d(bounds, np.arange(0, total, LEAST_ROWS * ROW)))
    segments = np.searchsorted(bounds, pieces[:, 0], side="right") - 1
    order = np.argsort(segments, kind="stable")
    pieces, segments = pieces[order], segments[order]
    rows = -(-pieces[:, 1] // ROW) - pieces[:, 0] // ROW
    whole = pieces[:, 1] // ROW + -pieces[:, 0] // ROW
    first, count = int(segments[0]), int(segments[-1] - segments[0]) + 1
    begins = np.searchsorted(segments, np.arange(first, first + count + 1))
    done = np.concatenate(([0], np.cumsum(rows)))
    shares = done[begins[1:]] - done[begins[:-1]]
    programs = int(min(MOST_PROGRAMS, -(-shares.max() // LEAST_ROWS)))
    # A piece belongs to the program in whose share of rows it begins.
    wanted = done[begins[:-1], None] + shares[:, None] * np.arange(programs) // programs
    ends = np.clip(np.searchsorted(done[:-1], wanted), begins[:-1, None], begins[1:, None]).reshape(-1)
    return Grid(
        segment=first,
        segments=count,
        programs=programs,
        chunk=0,
        # Few kinds of kernel: each is compiled when it is first needed.
        together=next(tiles for tiles in (TOGETHER, 2, 1) if tiles == 1 or whole.mean() >= TILE * tiles),
        aligned=_alignment(*(int(np.gcd.reduce(column)) for column in pieces.T)),
        pieces=pieces,
        ends=np.append(ends, len(pieces)),
    )


def _cut(table: NDArray[np.int64], cuts: NDArray[np.int64]) -> NDArray[np.int64]:
    """The table with its stretches cut at the ascending elements `cuts`."""
    low = np.searchsorted(cuts, table[:, 0], side="right")
    parts = np.searchsorted(cuts, table[:, 1], side="left") - low + 1
    of = np.repeat(np.arange(len(table)), parts)
    number = np.arange(len(of)) - np.repeat(np.cumsum(parts) - parts, parts) + low[of]
    firsts = np.maximum(table[of, 0], cuts[number - 1])
    ends = np.minimum(table[of, 1], cuts[np.minimum(number, len(cuts) - 1)])
    return np.stack((firsts, ends, table[of, 2]), axis=1)


def _alignment(*numbers: int) -> int:
    return next(by for by in (8, 4, 2, 1) if all(number % by == 0 for number in numbers))
