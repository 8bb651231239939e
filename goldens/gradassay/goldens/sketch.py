"""Sketch spec v1: a parameter's gradient as 1024 numbers, linear and addressable by element index.

Whatever its size, a gradient of N elements in canonical (row-major, unsharded) order becomes 16 segments of 64 signed
bucket sums; up to 1024 elements are kept as they are. Sketches of shards add up to the sketch of the whole.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

BUCKETS = 1024
SEGMENTS = 16
ROW = 64
# Beyond this a square, or a sum of them, is not finite any more: as good as infinite.
LARGEST = 1e150


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """What one pass over a slice gives; non-finite elements are counted, and left out of everything else.

    sketch: [1024] float64. norm2: sum of squares. absmax: largest magnitude. nonfinite: count of NaN and infinities.
    """

    sketch: NDArray[np.float64]
    norm2: float
    absmax: float
    nonfinite: int


def sketch(values: NDArray[np.generic], start: int = 0, total: int | None = None) -> NDArray[np.float64]:
    """The sketch [1024] float64 of a contiguous slice of a flattened parameter.

    values: 1-D float32, float64 or, as uint16, the bits of bfloat16. start: index of its first element. total: size of
    the whole parameter, by default that of the slice. Non-finite elements count as zero; `measure` counts them.
    """
    return measure(values, start, total).sketch


def sketch_runs(values: NDArray[np.generic], runs: NDArray[np.int64], total: int) -> NDArray[np.float64]:
    """The sketch [1024] float64 of a strided shard, given as runs [n, 2] int64 of first element and length."""
    return measure_runs(values, runs, total).sketch


def measure(values: NDArray[np.generic], start: int = 0, total: int | None = None) -> Measurement:
    """Sketch, sum of squares, largest magnitude and non-finite count of a slice; arguments as in `sketch`."""
    length = values.shape[0]
    return measure_runs(values, np.array([[start, length]], dtype=np.int64), start + length if total is None else total)


def measure_runs(values: NDArray[np.generic], runs: NDArray[np.int64], total: int) -> Measurement:
    """Sketch, sum of squares, largest magnitude and non-finite count of a shard given as runs.

    values: 1-D float32, float64 or bfloat16 bits as uint16, the runs' elements one after the other. runs: [n, 2] int64
    first element and length. Raises ValueError where the runs do not fit the values or the parameter.
    """
    sketched, totals = np.zeros(BUCKETS), np.zeros(3)
    add_runs(values, runs, total, sketched, totals)
    squares, largest, nonfinite = totals.tolist()
    return Measurement(sketch=sketched, norm2=squares, absmax=largest, nonfinite=int(nonfinite))


def add_runs(
    values: NDArray[np.generic],
    runs: NDArray[np.int64],
    total: int,
    sketched: NDArray[np.float64],
    totals: NDArray[np.float64],
) -> None:
    """Adds a shard, given as in `measure_runs`, to the sketch [1024] of its parameter and to totals [3]: the sum of squares,
    the largest magnitude and the non-finite count.
    """
    runs = np.ascontiguousarray(runs, dtype=np.int64)
    _check(values, runs, total)
    values = np.ascontiguousarray(values)
    add_checked(values, runs, total, sketched, totals)


def add_checked(
    values: NDArray[np.generic],
    runs: NDArray[np.int64],
    total: int,
    sketched: NDArray[np.float64],
    totals: NDArray[np.float64],
) -> None:
    """`add_runs` for those who know that values and runs fit each other and the parameter, and that both are contiguous."""
    if total <= BUCKETS:
        _add_elements(values, runs, sketched, totals)
        return
    from gradassay.goldens.kernel.segments import add

    add(values, runs, total, sketched, totals)


def segment_elements(total: int) -> NDArray[np.int64]:
    """[17] int64: segment s of a parameter of `total` elements holds elements [bounds[s], bounds[s+1]).

    Up to 1024 elements a sketch holds the elements themselves, 64 to a segment.
    """
    if total <= BUCKETS:
        return np.minimum(np.arange(SEGMENTS + 1, dtype=np.int64) * ROW, total)
    rows = -(-total // ROW)
    return np.minimum(np.arange(SEGMENTS + 1, dtype=np.int64) * rows // SEGMENTS * ROW, total)


def _check(values: NDArray[np.generic], runs: NDArray[np.int64], total: int) -> None:
    if values.ndim != 1 or values.dtype not in (np.float32, np.float64, np.uint16):
        raise ValueError(
            f"values must be 1-D float32, float64 or bfloat16 bits as uint16, not {values.dtype} {values.shape}"
        )
    if runs.ndim != 2 or runs.shape[1] != 2:
        raise ValueError(f"runs must be [n, 2], not {list(runs.shape)}")
    least, most, elements = extent_of(runs)
    if least < 0 or most > total:
        raise ValueError(f"runs reach outside the parameter's {total} elements")
    if elements != values.shape[0]:
        raise ValueError(f"runs hold {elements} elements, but there are {values.shape[0]} values")


def extent_of(runs: NDArray[np.int64]) -> tuple[int, int, int]:
    """Of runs [n, 2]: the least of their numbers, 0 at most; where the last of them ends; and how many elements they hold."""
    if len(runs) == 1:
        # As most are; numpy would take longer than the sketch of a small parameter.
        first, length = runs[0].tolist()
        return min(first, length, 0), first + length, length
    if not len(runs):
        return 0, 0, 0
    return min(int(runs.min()), 0), int(runs.sum(axis=1).max()), int(runs[:, 1].sum())


def _add_elements(
    values: NDArray[np.generic],
    runs: NDArray[np.int64],
    sketched: NDArray[np.float64],
    totals: NDArray[np.float64],
) -> None:
    """Of a parameter small enough to be kept as it is."""
    if values.dtype == np.uint16:
        values = (values.astype(np.uint32) << np.uint32(16)).view(np.float32)
    elements = values.astype(np.float64)
    finite = np.isfinite(elements)
    if not finite.all():
        elements[~finite] = 0.0
        totals[2] += int((~finite).sum())
    before = 0
    for first, length in runs.tolist():
        sketched[first : first + length] += elements[before : before + length]
        before += length
    totals[0] += elements @ elements
    totals[1] = max(totals[1], np.abs(elements).max(initial=0.0))
