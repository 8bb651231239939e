"""Strategies by layouts: the newest verdict of each cell."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from gradassay.api.web.views.marks import Mark, legend, mark
from gradassay.goldens.errors import UsageError
from gradassay.goldens.layout import Layout


@dataclass(frozen=True, slots=True, kw_only=True)
class Newest:
    """The newest run of one strategy in one layout, with its newest verdict; runs: how many there are of the cell."""

    run: str
    framework: str
    framework_version: str
    strategy: str
    layout: str
    runs: int
    verdict: str | None
    sentence: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One cell that has a run."""

    newest: Newest
    mark: Mark

    @property
    def title(self) -> str:
        """What hovering says."""
        newest = self.newest
        more = f" ({newest.runs} runs, this is the newest)" if newest.runs > 1 else ""
        ran = f"{newest.framework} {newest.framework_version}".strip()
        return f"{newest.sentence or self.mark.meaning} · {ran} {newest.strategy} {newest.layout}{more}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One strategy; cells are in the order of the matrix's layouts, None where there is no run."""

    strategy: str
    frameworks: tuple[str, ...]
    cells: tuple[Cell | None, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Matrix:
    """Rows by strategy, columns by layout from few ranks to many. counts: cells by mark, only those that occur."""

    layouts: tuple[str, ...]
    rows: tuple[Row, ...]
    counts: tuple[tuple[Mark, int], ...]

    @property
    def cells(self) -> int:
        """Cells that have a run."""
        return sum(count for _, count in self.counts)


def matrix(newest: Iterable[Newest]) -> Matrix:
    """The matrix of these cells, at most one for a strategy and layout."""
    by_place = {(cell.strategy, cell.layout): Cell(newest=cell, mark=mark(cell.verdict)) for cell in newest}
    layouts = sorted({layout for _, layout in by_place}, key=_in_order)
    rows = []
    for strategy in sorted({strategy for strategy, _ in by_place}):
        cells = tuple(by_place.get((strategy, layout)) for layout in layouts)
        frameworks = sorted({cell.newest.framework for cell in cells if cell})
        rows.append(Row(strategy=strategy, frameworks=tuple(frameworks), cells=cells))
    tally = Counter(cell.mark for cell in by_place.values())
    return Matrix(
        layouts=tuple(layouts),
        rows=tuple(rows),
        counts=tuple((one, tally[one]) for one in legend() if tally[one]),
    )


def _in_order(text: str) -> tuple[int, tuple[int, ...], str]:
    try:
        layout = Layout.parse(text)
    except UsageError:
        return (1 << 62, (), text)
    return (layout.world, tuple(layout.to_json().values()), text)
