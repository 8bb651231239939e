"""Tests of a suite and what each came to, for one page and one JUnit file of them all."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from gradassay.goldens.assay.result import GRAVEST_FIRST, Assay, Verdict
from gradassay.goldens.errors import NoGolden

SKIPPED, ERROR = "skipped", "error"
_OTHERS = tuple(str(verdict) for verdict in GRAVEST_FIRST if verdict is not Verdict.DIVERGE)
_GRAVEST_FIRST = (str(Verdict.DIVERGE), ERROR, NoGolden.code, *_OTHERS, SKIPPED)
"""As `gradassay wait` orders what it waited for: an error in one test hides no divergence of another."""


class Result(StrEnum):
    """What a test counts as."""

    PASSED = "passed"
    FAILED = "failed"
    ERRORED = "errored"
    SKIPPED = "skipped"


_RESULTS = {str(Verdict.AGREE): Result.PASSED, str(Verdict.DIVERGE): Result.FAILED, SKIPPED: Result.SKIPPED}


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One test. name: file, `::` and the rest, as the test's id is written. verdict: that of its assay, SKIPPED, or ERROR,
    or a code of gradassay.goldens.errors where it came to none.

    message: lines that say why it was skipped or came to no verdict. facts: what else is known of it, by title. reproduce:
    the command that does the same outside of the suite.
    """

    name: str
    verdict: str
    assay: Assay | None = None
    message: tuple[str, ...] = ()
    facts: Mapping[str, str] = field(default_factory=dict)
    reproduce: str = ""
    seconds: float = 0.0

    @property
    def result(self) -> Result:
        """What it counts as: only an assay that agrees passes."""
        return _RESULTS.get(self.verdict, Result.ERRORED)

    @property
    def file(self) -> str:
        """The part of the name before `::`."""
        return self.name.partition("::")[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class Suite:
    """Tests that ran together. run: the id of that run. created: when the report was made, UTC, ISO 8601. notes: what the
    entries do not say, a sentence each.
    """

    run: str
    created: str
    entries: tuple[Entry, ...]
    notes: tuple[str, ...] = ()

    @property
    def counts(self) -> Mapping[str, int]:
        """How many entries have each verdict, the gravest first."""
        words = sorted({entry.verdict for entry in self.entries}, key=_gravity)
        return {word: sum(entry.verdict == word for entry in self.entries) for word in words}

    @property
    def verdict(self) -> str:
        """The gravest verdict of all; ERROR where there is no entry, which is never a pass."""
        return min((entry.verdict for entry in self.entries), key=_gravity, default=ERROR)

    def count(self, result: Result) -> int:
        """How many entries count as this."""
        return sum(entry.result is result for entry in self.entries)


def _gravity(verdict: str) -> tuple[int, str]:
    return (_GRAVEST_FIRST.index(verdict if verdict in _GRAVEST_FIRST else ERROR), verdict)
