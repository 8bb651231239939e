"""What the tests of a suite count as together."""

from __future__ import annotations

import pytest

from gradassay.goldens.assay.result import Assay
from gradassay.goldens.report.suite import ERROR, SKIPPED, Entry, Result, Suite


def _suite(*verdicts: str) -> Suite:
    return Suite(
        run="r", created="2026-11-30T12:00:00Z", entries=tuple(Entry(name=word, verdict=word) for word in verdicts)
    )


@pytest.mark.parametrize(
    ("verdicts", "gravest"),
    [
        (("agree", "agree"), "agree"),
        (("agree", SKIPPED), "agree"),
        ((SKIPPED,), SKIPPED),
        (("agree", "inconclusive", SKIPPED), "inconclusive"),
        (("inconclusive", "diverge", "incomplete"), "diverge"),
        (("diverge", ERROR, "no-golden"), "diverge"),
        (("no-golden", "cell-failed", "incomplete"), "cell-failed"),
        (("incomplete", "no-golden", "agree"), "no-golden"),
        ((), ERROR),
    ],
)
def test_the_gravest_verdict_is_that_of_the_suite(verdicts: tuple[str, ...], gravest: str):
    suite = _suite(*verdicts)
    assert suite.verdict == gravest
    assert sum(suite.counts.values()) == len(verdicts)
    assert list(suite.counts)[:1] == ([gravest] if verdicts else [])


@pytest.mark.parametrize(
    ("verdict", "result"),
    [
        ("agree", Result.PASSED),
        ("diverge", Result.FAILED),
        (SKIPPED, Result.SKIPPED),
        ("incomplete", Result.ERRORED),
        ("no-golden", Result.ERRORED),
        ("what a later release says", Result.ERRORED),
    ],
)
def test_what_is_not_known_to_pass_does_not(verdict: str, result: Result):
    assert _suite(verdict).entries[0].result is result
    assert _suite(verdict).count(result) == 1


def test_the_file_is_what_stands_before_the_colons(expert: Assay):
    assert Entry(name="tests/test_a.py::T::t[x::y]", verdict="diverge", assay=expert).file == "tests/test_a.py"
