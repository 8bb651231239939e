"""What a session ends with: the report, candidates in the store, and what the terminal says of both."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from gradassay.goldens.errors import GradassayError
from gradassay.testing.options import without_secret

if TYPE_CHECKING:
    from collections.abc import Iterable

    import pytest

    from gradassay.testing.session import Testing


@dataclass(slots=True, kw_only=True)
class Summary:
    """Lines for the terminal. broken: something that was asked for could not be written."""

    lines: list[str] = field(default_factory=list)
    broken: bool = False

    def fail(self, what: str, error: GradassayError) -> None:
        """Adds that something could not be done, and makes the session fail."""
        self.lines += [f"{what}: {error.message}", *(f"  {line}" for line in error.hint.splitlines())]
        self.broken = True


def publish(session: Testing) -> Summary:
    """Stores the candidates and writes the report; only the controller does, when all workers are gone."""
    summary = Summary()
    options = session.options
    if options.update and session.was_used and session.candidates.is_dir():
        from gradassay.testing.candidates import publish as store_candidates

        try:
            store = session.goldens.store
            where = ("--url" if session.goldens.is_service else "--store", without_secret(options.store))
            summary.lines += [item.sentence(where) for item in store_candidates(session.candidates, store)]
        except GradassayError as error:
            summary.fail("candidates could not be stored", error)
    if options.report is not None:
        from gradassay.testing.report import publish as write_report

        try:
            published = write_report(session.folder, run=session.told["run"])
            summary.lines += [f"report: {published.folder / 'index.html'} ({published.verdict})", *published.notes]
        except GradassayError as error:
            summary.fail("the report could not be written", error)
    return summary


def without_golden(skipped: Iterable[pytest.TestReport]) -> list[str]:
    """Loud words on the tests that were skipped because their golden does not exist."""
    tests: dict[str, list[str]] = {}
    for report in skipped:
        properties = dict(report.user_properties)
        if properties.get("gradassay.verdict") == "skipped" and properties.get("gradassay.exit") == "3":
            reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
            tests.setdefault(reason.partition("nothing was compared: ")[2], []).append(report.nodeid)
    return [f"NOTHING WAS COMPARED in {len(names)} skipped tests: {reason}" for reason, names in tests.items()]
