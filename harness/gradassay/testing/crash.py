"""Tests whose worker died: which of them were gradassay's, and what the controller says of them."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pytest

    from gradassay.testing.session import Testing


def begin(session: Testing, test: str) -> None:
    """Leaves word that this worker runs the test."""
    path = _note(session, test)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch()


def end(session: Testing, test: str) -> None:
    """Takes it back: the test came to an end in its worker."""
    _note(session, test).unlink(missing_ok=True)


def explain(session: Testing, test: str, report: pytest.TestReport, worker: str) -> None:
    """Makes the report of a test whose worker died an error that says so, where the test was gradassay's."""
    if not _note(session, test).exists():
        return
    reason = (
        f"worker {worker} died while it ran this test; the ranks of its cell ended with it, and nothing was compared"
    )
    session.parts.lost(test, reason)
    report.when = "setup"
    report.longrepr = f"cell-failed: {reason}\n  run this test alone to see what it printed:\n  pytest {test!r}"
    report.user_properties += [("gradassay.verdict", "cell-failed"), ("gradassay.exit", "4")]


def _note(session: Testing, test: str) -> Path:
    name = hashlib.sha256(test.encode("utf-8", "surrogatepass")).hexdigest()[:32]
    return session.scratch / "begun" / name
