"""The sizes as tables, in Markdown."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import isfinite

from gradassay.goldens.report import numbers
from gradassay.harness.power.injected import ERRORS
from gradassay.harness.power.measure import SKETCH, Smallest

NEVER = "never"


def by_check(found: Sequence[Smallest]) -> Iterator[tuple[str, ...]]:
    """Rows of check, the worst size of each kind of error over all families, and false alarms."""
    yield ("check", *(error.title for error in ERRORS), "false alarms", "beside the truth")
    for check in dict.fromkeys(one.check for one in found):
        own = [one for one in found if one.check == check]
        yield (
            check,
            *(size(max(one.worst for one in own if one.error == error.title)) for error in ERRORS),
            _alarms(sum(one.alarms for one in own), sum(one.of for one in own)),
            _alarms(sum(one.coarse for one in own), sum(one.of for one in own)),
        )


def by_family(found: Sequence[Smallest], check: str = SKETCH) -> Iterator[tuple[str, ...]]:
    """Rows of family and the worst size of each kind of error that one check flags."""
    yield ("family", *(error.title for error in ERRORS))
    for family in dict.fromkeys(one.family for one in found):
        own = {one.error: one.worst for one in found if one.check == check and one.family == family}
        yield (family, *(size(own[error.title]) for error in ERRORS))


def markdown(rows: Iterator[tuple[str, ...]]) -> str:
    """A table with all columns but the first aligned to the right."""
    titles, *others = rows
    lines = [titles, ("---", *("---:" for _ in titles[1:])), *others]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def size(value: float) -> str:
    """A size, or `never` where none is flagged."""
    return numbers.error(value) if isfinite(value) else NEVER


def _alarms(count: int, of: int) -> str:
    return f"{count} of {of}" if count else "0"
