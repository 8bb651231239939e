"""A matrix file: its tables, and the cells that they come to."""

from __future__ import annotations

import tomllib
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Any

from gradassay.goldens.errors import InvalidFile, UsageError
from gradassay.goldens.layout import Layout
from gradassay.harness.cell import Cell
from gradassay.harness.matrix.fit import fault_misfit, misfit
from gradassay.harness.matrix.table import SIZES, Table, Where, check_table, nearest


@dataclass(frozen=True, slots=True, kw_only=True)
class Matrix:
    """The cells of a file, each once, in its order.

    lines: for each cell as text the line of the file that it comes from, `layouts` or else the header of its table.
    skipped: how many combinations of products cannot exist, by reason. excluded: how many the file's `exclude` left
    out.
    """

    cells: tuple[Cell, ...]
    lines: Mapping[str, int] = field(default_factory=dict)
    skipped: Mapping[str, int] = field(default_factory=dict)
    excluded: int = 0


def read_matrix(path: Path, *, defaults: Mapping[str, Any] | None = None) -> Matrix:
    """The matrix at `path`; defaults: keys for the tables that leave them out.

    Raises InvalidFile, naming file, line, table, key and what was expected, for anything that is not as docs/matrix.md
    says.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidFile(f"{path}: cannot be read ({error})", hint="give a TOML file", path=str(path)) from error
    return parse_matrix(text, path, defaults=defaults)


def parse_matrix(text: str, path: Path, *, defaults: Mapping[str, Any] | None = None) -> Matrix:
    """The matrix that `text` describes; `path` is for messages."""
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise InvalidFile(f"{path}: not valid TOML: {error}", hint="see docs/matrix.md", path=str(path)) from error
    for key in document:
        if key != "matrix":
            raise InvalidFile(
                f"{path}: expected tables [[matrix]] and nothing else, found {key!r}",
                hint=nearest(key, ["matrix"]),
                path=str(path),
                field=key,
            )
    tables = document.get("matrix")
    if not isinstance(tables, list) or not tables or not all(isinstance(table, dict) for table in tables):
        found = "none" if tables is None else "a single [matrix]" if isinstance(tables, dict) else repr(tables)
        raise InvalidFile(f"{path}: expected at least one table [[matrix]], found {found}", path=str(path))
    cells: dict[str, Cell] = {}
    lines: dict[str, int] = {}
    skipped: Counter[str] = Counter()
    excluded = 0
    for number, content in enumerate(tables, 1):
        table = check_table(Where(path, text, number), {**(defaults or {}), **content})
        line = table.where.line("layouts")
        for cell in cells_of(table, skipped):
            if any(_matches(cell, rule) for rule in table.exclude):
                excluded += 1
            else:
                cells.setdefault(str(cell), cell)
                lines.setdefault(str(cell), line)
    if not cells:
        reasons = "; ".join(f"{count} x {reason}" for reason, count in skipped.items()) or f"{excluded} excluded"
        raise InvalidFile(f"{path}: no cell is left ({reasons})", hint="see docs/matrix.md", path=str(path))
    return Matrix(cells=tuple(cells.values()), lines=lines, skipped=dict(skipped), excluded=excluded)


def cells_of(table: Table, skipped: Counter[str]) -> Iterator[Cell]:
    """The cells of one table, before its `exclude`; counts the combinations that cannot exist, by reason, in `skipped`."""
    layouts = table.layouts or tuple(_product(table, skipped))
    choices = product(table.problems, table.strategies, table.frameworks, table.faults, table.dtypes, layouts)
    for problem, strategy, framework, fault, dtype, layout in choices:
        cell = Cell(
            problem=problem,
            strategy=strategy,
            layout=layout,
            dtype=dtype,
            framework=framework,
            fault=fault,
            options=table.options,
            full=table.full,
            **table.capture,
        )
        reason = misfit(cell) or fault_misfit(cell)
        if reason is None:
            yield cell
        elif table.layouts is not None:
            table.where.refuse("layouts", "cells that can exist", f"{str(layout)!r}, but {reason}")
        else:
            skipped[reason] += 1


def _product(table: Table, skipped: Counter[str]) -> Iterator[Layout]:
    times = len(table.problems) * len(table.strategies) * len(table.frameworks) * len(table.faults) * len(table.dtypes)
    for sizes in product(*(table.sizes[key] for key in SIZES)):
        try:
            yield Layout(**dict(zip(SIZES, sizes, strict=True)))
        except UsageError:
            skipped["ep or replicate does not divide dp"] += times


def _matches(cell: Cell, rule: Mapping[str, tuple[str | int, ...]]) -> bool:
    return all(getattr(cell.layout if key in SIZES else cell, key) in choices for key, choices in rule.items())
