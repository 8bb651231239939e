"""How long-running work says how far it is, whoever shows it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Protocol


class Advance(Protocol):
    """Called once for every piece of work that is done."""

    def __call__(self, label: str, *, ok: bool = True) -> None:
        """label: the piece, in a few words. ok: whether it succeeded."""
        ...


class Progress(Protocol):
    """Shows stages of work; the command line has one with bars."""

    def stage(self, title: str, total: int) -> AbstractContextManager[Advance]:
        """A stage of `total` pieces, over when the context is left, by an exception too."""
        ...

    def say(self, text: str) -> None:
        """A line about what goes on, which is no piece of work."""
        ...


class Silent:
    """Shows nothing."""

    @contextmanager
    def stage(self, title: str, total: int) -> Iterator[Advance]:
        """A stage that nobody sees."""
        yield _ignore

    def say(self, text: str) -> None:
        """Nothing."""


def _ignore(label: str, *, ok: bool = True) -> None:  # noqa: ARG001
    return
