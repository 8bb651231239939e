"""The table of parameters: searched, filtered, sorted and cut into pages here, so that 10,000 of them stay readable."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

PAGE_SIZE = 50
COLUMNS = ("name", "family", "verdict", "ratio", "residual", "tolerance")
_NUMERIC = frozenset({"ratio", "residual", "tolerance"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What is asked of the table. search: a part of the name, in any case. sort: a column, with `-` before it falling;
    empty for the parameters that do not agree first, each in the model's order. page: from 1.
    """

    search: str = ""
    family: str = ""
    verdict: str = ""
    sort: str = ""
    page: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One parameter; law is empty where it agrees."""

    name: str
    family: str
    verdict: str
    ratio: float | None
    residual: float | None
    tolerance: float | None
    note: str
    law: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """One page of the table. found: parameters that fit, of `total`; families and verdicts: what can be chosen."""

    rows: tuple[Row, ...]
    found: int
    total: int
    page: int
    pages: int
    families: tuple[str, ...]
    verdicts: tuple[str, ...]
    wanted: Wanted


def parameter_table(document: Mapping[str, Any], wanted: Wanted) -> Table:
    """The page that is wanted of an assay's parameters, the last one where there are not so many."""
    parameters: Sequence[Mapping[str, Any]] = document["parameters"]
    laws = {name: finding["law"]["formula"] for finding in document["findings"] for name in finding["parameters"]}
    fitting = [parameter for parameter in parameters if _fits(parameter, wanted)]
    column = wanted.sort.removeprefix("-")
    if column in COLUMNS:
        fitting = _sorted(fitting, column, falling=wanted.sort.startswith("-"))
    else:
        fitting.sort(key=lambda parameter: parameter["verdict"] == "agree")
    pages = max(1, math.ceil(len(fitting) / PAGE_SIZE))
    number = min(max(wanted.page, 1), pages)
    shown = fitting[(number - 1) * PAGE_SIZE : number * PAGE_SIZE]
    return Table(
        rows=tuple(_row(parameter, laws.get(parameter["name"], "")) for parameter in shown),
        found=len(fitting),
        total=len(parameters),
        page=number,
        pages=pages,
        families=tuple(sorted({parameter["family"] for parameter in parameters})),
        verdicts=tuple(sorted({parameter["verdict"] for parameter in parameters})),
        wanted=wanted,
    )


def _fits(parameter: Mapping[str, Any], wanted: Wanted) -> bool:
    return (
        wanted.search.strip().lower() in parameter["name"].lower()
        and wanted.family in ("", parameter["family"])
        and wanted.verdict in ("", parameter["verdict"])
    )


def _sorted(parameters: Sequence[Mapping[str, Any]], column: str, *, falling: bool) -> list[Mapping[str, Any]]:
    """By the column, what is unknown last in either direction."""
    known = [parameter for parameter in parameters if parameter[column] is not None]
    unknown = [parameter for parameter in parameters if parameter[column] is None]
    key: Callable[[Mapping[str, Any]], Any] = (
        (lambda parameter: parameter[column]) if column in _NUMERIC else (lambda parameter: _natural(parameter[column]))
    )
    return [*sorted(known, key=key, reverse=falling), *unknown]


def _natural(text: str) -> tuple[tuple[int, str], ...]:
    """The parts of a dotted name, so that layers.2 comes before layers.10."""
    return tuple((int(part), "") if part.isdecimal() else (-1, part) for part in text.split("."))


def _row(parameter: Mapping[str, Any], law: str) -> Row:
    return Row(
        **{name: parameter[name] for name in COLUMNS},
        note=parameter.get("note", ""),
        law=law,
    )
