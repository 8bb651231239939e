"""Progress as lines, for logs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from gradassay.harness.progress import Advance

QUARTERS = 4


class Lines:
    """A line at every quarter of a stage; satisfies gradassay.harness.progress.Progress."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say

    @contextmanager
    def stage(self, title: str, total: int) -> Iterator[Advance]:
        """Says how many of `total` pieces are done, and how many of them failed."""
        done = failed = 0

        def advance(label: str, *, ok: bool = True) -> None:  # noqa: ARG001
            nonlocal done, failed
            quarter = done * QUARTERS // total
            done, failed = done + 1, failed + (not ok)
            if done * QUARTERS // total > quarter:
                self._say(f"{title}: {done} of {total}" + (f", {failed} failed" if failed else ""))

        yield advance
