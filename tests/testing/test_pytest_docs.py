"""docs/pytest.md says all that there is; that its start works is tested with the starts of the other pages."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from gradassay.testing.marker import KEYWORDS, SINGULAR
from gradassay.testing.noting import PREFIX
from gradassay.testing.options import add_options

DOCUMENT = (Path(__file__).parents[2] / "docs" / "pytest.md").read_text(encoding="utf-8")
ROWS = {
    name for row in re.findall(r"^\| (`[^|]+) \|", DOCUMENT, re.MULTILINE) for name in re.findall(r"`([\w-]+)`", row)
}


def test_every_option_has_a_row() -> None:
    parser = pytest.Parser(_ispytest=True)
    add_options(parser)
    known = set(re.findall(r"--golden-\w+", parser.optparser.format_help()))

    assert len(known) == 4
    assert known <= ROWS


def test_every_keyword_has_a_row() -> None:
    plurals = set(SINGULAR.values()) | {"layout"}
    assert set(KEYWORDS) - plurals | {"layouts"} <= ROWS | {"layout"}


@pytest.mark.parametrize("name", ["cell", "verdict", "exit", "law", "record", "golden"])
def test_every_property_is_named(name: str) -> None:
    assert f"`.{name}`" in DOCUMENT or f"`{PREFIX}.{name}`" in DOCUMENT
