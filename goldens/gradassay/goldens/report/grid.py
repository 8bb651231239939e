"""Weights by data-parallel rank and micro step, equal neighbours put together so that large layouts stay readable."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from gradassay.goldens.report import numbers

ROUNDING = 1e-6
"""Weights this much smaller than the largest of their grid are rounding of float32 gradients, and print as 0."""

Weights = Sequence[Sequence[float | None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Grid:
    """Printed weights: [rows][columns]. uniform: the one value where all are alike, else an empty text.

    owner: the rank whose shard or copy these weights explain, None for the gradient as a whole. values: the numbers
    behind the texts, of the first row and column of each group.
    """

    rows: tuple[str, ...]
    columns: tuple[str, ...]
    texts: tuple[tuple[str, ...], ...]
    values: tuple[tuple[float | None, ...], ...]
    owner: int | None

    @property
    def uniform(self) -> str:
        """The one printed value where the whole grid is alike, else an empty text."""
        return self.texts[0][0] if len(self.texts) == 1 and len(self.texts[0]) == 1 else ""


def grid(
    weights: Weights, *, owner: int | None = None, compact: bool = True, axes: tuple[str, str] = ("r", "m")
) -> Grid:
    """The weights [dp][accum] as a grid; with compact, neighbouring rows (columns) that print alike become one.

    axes: what rows and columns are called; an axis without a name is numbered from 1.
    """
    known = [abs(value) for row in weights for value in row if value is not None and math.isfinite(value)]
    least = ROUNDING * max(known, default=0.0)
    texts = [[numbers.factor(_rounded(value, least)) for value in row] for row in weights]
    columns = list(zip(*texts, strict=True))
    row_runs = _runs(texts) if compact else [(index, index) for index in range(len(texts))]
    column_runs = _runs(columns) if compact else [(index, index) for index in range(len(columns))]
    return Grid(
        rows=tuple(_label(axes[0], run) for run in row_runs),
        columns=tuple(_label(axes[1], run) for run in column_runs),
        texts=tuple(tuple(texts[row][column] for column, _ in column_runs) for row, _ in row_runs),
        values=tuple(tuple(weights[row][column] for column, _ in column_runs) for row, _ in row_runs),
        owner=owner,
    )


def _rounded(value: float | None, least: float) -> float | None:
    return 0.0 if value is not None and abs(value) < least else value


def _runs(items: Sequence[Sequence[str]]) -> list[tuple[int, int]]:
    runs: list[tuple[int, int]] = []
    for index, item in enumerate(items):
        if runs and list(items[runs[-1][0]]) == list(item):
            runs[-1] = (runs[-1][0], index)
        else:
            runs.append((index, index))
    return runs


def _label(axis: str, run: tuple[int, int]) -> str:
    first, last = run
    if not axis:
        return str(first + 1)
    return f"{axis} = {first}" if first == last else f"{axis} = {first}–{last}"
