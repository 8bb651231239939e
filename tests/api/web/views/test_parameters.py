"""The table of parameters: search, filters, order and pages."""

from __future__ import annotations

from typing import Any

import pytest

from gradassay.api.web.views.parameters import PAGE_SIZE, Wanted, parameter_table


def parameter(name: str, **facts: Any) -> dict[str, Any]:
    return {
        "name": name,
        "family": "dense",
        "verdict": "agree",
        "ratio": 1.0,
        "residual": 1e-7,
        "tolerance": 2e-7,
        **facts,
    }


DOCUMENT = {
    "parameters": [
        parameter("layers.2.q"),
        parameter("layers.10.q", ratio=None, residual=3e-7),
        parameter("layers.1.Expert", family="expert", verdict="diverge", ratio=2.0, note="seen <twice>"),
        parameter("head", ratio=-1.0, verdict="inconclusive"),
    ],
    "findings": [{"parameters": ["layers.1.Expert"], "law": {"formula": "w[r,m] = ep"}}],
}


def names(**wanted: Any) -> list[str]:
    return [row.name for row in parameter_table(DOCUMENT, Wanted(**wanted)).rows]


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        ({}, ["layers.1.Expert", "head", "layers.2.q", "layers.10.q"]),
        ({"search": " EXPERT "}, ["layers.1.Expert"]),
        ({"family": "expert"}, ["layers.1.Expert"]),
        ({"verdict": "agree"}, ["layers.2.q", "layers.10.q"]),
        ({"verdict": "agree", "family": "expert"}, []),
        ({"sort": "name"}, ["head", "layers.1.Expert", "layers.2.q", "layers.10.q"]),
        ({"sort": "-name"}, ["layers.10.q", "layers.2.q", "layers.1.Expert", "head"]),
        ({"sort": "ratio"}, ["head", "layers.2.q", "layers.1.Expert", "layers.10.q"]),
        ({"sort": "-ratio"}, ["layers.1.Expert", "layers.2.q", "head", "layers.10.q"]),
        ({"sort": "nonsense"}, ["layers.1.Expert", "head", "layers.2.q", "layers.10.q"]),
    ],
)
def test_rows_are_what_is_asked_for(wanted: dict, expected: list[str]):
    assert names(**wanted) == expected


def test_row_says_its_law_and_note():
    row = parameter_table(DOCUMENT, Wanted()).rows[0]
    assert (row.law, row.note, row.ratio) == ("w[r,m] = ep", "seen <twice>", 2.0)
    assert parameter_table(DOCUMENT, Wanted(verdict="agree")).rows[0].law == ""


@pytest.mark.parametrize(("page", "shown", "first"), [(1, 1, 0), (3, 3, 2 * PAGE_SIZE), (99, 3, 2 * PAGE_SIZE)])
def test_pages_are_cut_and_the_last_one_ends_them(page: int, shown: int, first: int):
    many = {"parameters": [parameter(f"p.{number}") for number in range(2 * PAGE_SIZE + 5)], "findings": []}
    table = parameter_table(many, Wanted(page=page))
    assert (table.page, table.pages, table.found, table.total) == (shown, 3, 105, 105)
    assert table.rows[0].name == f"p.{first}"
