"""A text put together from whole pieces below a limit; what had no room is said."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """How long a text may be. length: in characters or bytes, as whoever limits it counts."""

    most: int
    length: Callable[[str], int]

    def less(self, used: int) -> Limit:
        """What is left of it."""
        return Limit(most=max(0, self.most - used), length=self.length)


def utf8_length(text: str) -> int:
    """Bytes of the text as a file holds it."""
    return len(text.encode())


SUMMARY = Limit(most=1 << 20, length=utf8_length)
"""What GitHub shows as the summary of one step; of a longer file it shows nothing."""
GITHUB_COMMENT = Limit(most=65_536, length=len)
GITLAB_COMMENT = Limit(most=1_000_000, length=len)


@dataclass(slots=True, kw_only=True)
class Page:
    """A growing text. reserved: room that pieces leave for what must come after them."""

    limit: Limit
    reserved: int
    text: str = ""
    _used: int = field(default=0, init=False)

    def add(self, text: str) -> None:
        """Adds what must be there; the reserve pays for it where nothing else is left."""
        self.text += text
        self._used += self.limit.length(text)

    def add_most(
        self, pieces: Sequence[str], left_out: Callable[[int], str], *, opening: str = "", closing: str = ""
    ) -> None:
        """Adds as many of the first pieces as have room, between opening and closing, and left_out of how many had none."""
        if not pieces:
            return
        length = self.limit.length
        room = self.limit.most - self._used - self.reserved - length(opening) - length(closing)
        count = 0
        for piece in pieces:
            room -= length(piece)
            if room < 0:
                break
            count += 1
        if count:
            self.add(f"{opening}{''.join(pieces[:count])}{closing}")
        if count < len(pieces):
            self.add(left_out(len(pieces) - count))
