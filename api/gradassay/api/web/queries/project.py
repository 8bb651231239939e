"""Which rows a caller sees."""

from __future__ import annotations

from sqlalchemy import ColumnElement, true
from sqlalchemy.orm import InstrumentedAttribute

ALL = "*"


def within(column: InstrumentedAttribute[str], project: str) -> ColumnElement[bool]:
    """The condition that a row is of this project; "*" is every project."""
    return true() if project == ALL else column == project
