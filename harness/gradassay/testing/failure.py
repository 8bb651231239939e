"""What a test says that does not pass: the law first, the command that shows it outside pytest last."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gradassay.goldens.report.text import render_text

if TYPE_CHECKING:
    from gradassay.goldens.assay.result import Assay
    from gradassay.goldens.errors import GradassayError


def disagreement(assay: Assay, reproduce: str) -> str:
    """The report of an assay that does not agree, and the command that reproduces it."""
    return f"{render_text([assay])}{_command(reproduce)}"


def no_golden(error: GradassayError) -> str:
    """That there is nothing to compare with, which is no pass."""
    more = "pytest --golden-update builds a candidate to approve; --golden-missing skip skips such tests"
    return "\n".join([f"no golden: {error.message}", *_indented(error.hint), f"  {more}"])


def ran_into(error: GradassayError, *, log: str = "", reproduce: str = "") -> str:
    """An error that left nothing to compare; the traceback of the rank that failed is its hint. log: what that rank printed."""
    printed = ["", "the rank printed:", *_indented(log)] if log.strip() else []
    lines = [f"{error.code}: {error.message}", *_indented(error.hint), *printed]
    return "\n".join(lines) + (f"\n{_command(reproduce)}" if reproduce else "")


def _command(reproduce: str) -> str:
    return f"\nreproduce it outside pytest:\n  {reproduce}"


def _indented(text: str) -> list[str]:
    return [f"  {line}" for line in text.splitlines()]
