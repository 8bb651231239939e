"""Progress as lines, for logs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from gradassay.harness.progress import Advance, Silent

QUARTERS = 4


class Lines:
    """A line at every quarter of a stage; satisfies gradassay.harness.progress.Progress."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self.say = say

    @contextmanager
    def stage(self, title: str, total: int) -> Iterator[Advance]:
        """Says how many of `total` pieces are done, and how many of them failed."""
        done = failed = 0

        def advance(label: str, *, ok: bool = True) -> None:  # noqa: ARG001
            nonlocal done, failed
            quarter = done * QUARTERS // total
            done, failed = done + 1, failed + (not ok)
            if done * QUARTERS // total > quarter:
                self.say(f"{title}: {done} of {total}" + (f", {failed} failed" if failed else ""))

        yield advance


class Notices(Silent):
    """No line for work that goes on as it should, only those about what holds it up."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say

    def say(self, text: str) -> None:
        """Says it."""
        self._say(text)
