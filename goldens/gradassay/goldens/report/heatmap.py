"""Weights as a heat-map: geometry and shades of an inline SVG, centred on the healthy weight of 1."""

from __future__ import annotations

import math
from dataclasses import dataclass

from gradassay.goldens.report import numbers
from gradassay.goldens.report.grid import Grid

CELL_WIDTH, NARROW_CELL_WIDTH, CELL_HEIGHT, GAP = 64, 58, 34, 2
MANY_COLUMNS = 12
LETTER_WIDTH, LABEL_GAP, HEADER_HEIGHT = 8, 10, 26
SHADES = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One rectangle with its printed value; shade is a class of the page's style sheet."""

    x: int
    y: int
    text: str
    shade: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Label:
    """The name of a row or column at its place."""

    x: int
    y: int
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Heatmap:
    """A drawn grid in pixels; cells are all of one size.

    legend: (shade, text) from the smallest weight to the largest, then what has no place there.
    """

    grid: Grid
    width: int
    height: int
    cell_width: int
    cell_height: int
    cells: tuple[Cell, ...]
    rows: tuple[Label, ...]
    columns: tuple[Label, ...]
    legend: tuple[tuple[str, str], ...]
    summary: str


def heatmap(grid: Grid) -> Heatmap:
    """The grid drawn with a logarithmic colour scale that reaches as far from 1 as its farthest weight, at least 2."""
    seen = [
        value
        for values, texts in zip(grid.values, grid.texts, strict=True)
        for value, text in zip(values, texts, strict=True)
        if value is not None and math.isfinite(value) and value > 0 and text != "0"
    ]
    reach = max([1.0, *(abs(math.log2(value)) for value in seen)])
    left = LETTER_WIDTH * max(map(len, grid.rows)) + LABEL_GAP
    cell_width = NARROW_CELL_WIDTH if len(grid.columns) > MANY_COLUMNS else CELL_WIDTH
    across, down = cell_width + GAP, CELL_HEIGHT + GAP
    cells = tuple(
        Cell(
            x=left + column * across,
            y=HEADER_HEIGHT + row * down,
            text=text,
            shade=shade(value, text, reach),
        )
        for row, (texts, numbers_of_row) in enumerate(zip(grid.texts, grid.values, strict=True))
        for column, (text, value) in enumerate(zip(texts, numbers_of_row, strict=True))
    )
    middle = CELL_HEIGHT // 2
    return Heatmap(
        grid=grid,
        width=left + len(grid.columns) * across,
        height=HEADER_HEIGHT + len(grid.rows) * down,
        cell_width=cell_width,
        cell_height=CELL_HEIGHT,
        cells=cells,
        rows=tuple(
            Label(x=left - LABEL_GAP, y=HEADER_HEIGHT + index * down + middle, text=text)
            for index, text in enumerate(grid.rows)
        ),
        columns=tuple(
            Label(x=left + index * across + cell_width // 2, y=HEADER_HEIGHT // 2, text=text)
            for index, text in enumerate(grid.columns)
        ),
        legend=_legend(reach, {cell.shade for cell in cells}),
        summary=_summary(grid),
    )


def shade(value: float | None, text: str, reach: float) -> str:
    """The style class of a weight: `s0` where it prints as 1, `low1` to `low5` below, `high1` to `high5` above."""
    if value is None:
        return "unobserved"
    if not math.isfinite(value):
        return "nonfinite"
    if text == "0":
        return "zero"
    if value < 0:
        return "negative"
    if text == "1":
        return "s0"
    distance = math.log2(value) / reach
    step = min(SHADES, max(1, round(abs(distance) * SHADES)))
    return f"high{step}" if distance > 0 else f"low{step}"


def _legend(reach: float, present: set[str]) -> tuple[tuple[str, str], ...]:
    def value(step: int) -> str:
        return numbers.factor(2 ** (reach * step / SHADES)) if abs(step) in (0, SHADES) else ""

    scale = [(f"low{step}", value(-step)) for step in range(SHADES, 0, -1)]
    scale += [("s0", "1"), *((f"high{step}", value(step)) for step in range(1, SHADES + 1))]
    others = (("zero", "zero"), ("negative", "negative"), ("nonfinite", "not finite"), ("unobserved", "not observed"))
    return (*scale, *((name, text) for name, text in others if name in present))


def _summary(grid: Grid) -> str:
    texts = {text for row in grid.texts for text in row}
    known = sorted((text for text in texts if text not in (numbers.ABSENT, "nan", "inf", "-inf")), key=float)
    if not known:
        return "no finite weight was observed"
    return f"every weight is {known[0]}" if len(known) == 1 else f"weights from {known[0]} to {known[-1]}; healthy is 1"
