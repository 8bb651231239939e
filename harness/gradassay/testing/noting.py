"""What a test came to, left where others read it: its part of the report, and the properties of its JUnit entry."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from gradassay.testing.parts import Part

if TYPE_CHECKING:
    import pytest

    from gradassay.testing.parts import Parts

PREFIX = "gradassay"


class Notes:
    """The comparisons of one test, numbered as they are made."""

    def __init__(self, item: pytest.Item, parts: Parts) -> None:
        self._item = item
        self._parts = parts
        self._number = 0
        self._begun_s = time.monotonic()

    def add(self, part: Part, *, law: str = "", digest: str = "") -> None:
        """Writes the part, numbered and timed, and its properties. law: formulas found. digest: the record's."""
        from dataclasses import replace

        self._number += 1
        now_s = time.monotonic()
        seconds, self._begun_s = now_s - self._begun_s, now_s
        self._parts.write(replace(part, number=self._number, seconds=round(seconds, 3)))
        prefix = PREFIX if self._number == 1 else f"{PREFIX}.{self._number}"
        figures = {
            "cell": part.cell,
            "verdict": part.verdict,
            "exit": str(part.exit),
            "law": law,
            "record": digest,
            "golden": part.golden,
        }
        self._item.user_properties += [(f"{prefix}.{key}", value) for key, value in figures.items() if value]
