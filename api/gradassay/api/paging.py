"""Pages of long lists, newest first, and the opaque text by which the next one is asked for."""

from __future__ import annotations

import base64
import binascii
from dataclasses import dataclass
from typing import Generic, TypeVar

from gradassay.goldens.errors import UsageError

Item = TypeVar("Item")
LARGEST = 200
_MOST_DIGITS = 18


@dataclass(frozen=True, slots=True, kw_only=True)
class Page(Generic[Item]):
    """Some items of a list. next: the number before which the next page begins, None at the end."""

    items: tuple[Item, ...]
    next: int | None


def to_cursor(number: int | None) -> str | None:
    """The number as clients see it: opaque, safe in a URL."""
    return None if number is None else base64.urlsafe_b64encode(str(number).encode()).decode().rstrip("=")


def from_cursor(cursor: str | None) -> int | None:
    """The number in a cursor; raises UsageError for one that this service never gave."""
    if not cursor:
        return None
    try:
        text = base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)).decode("ascii")
    except (binascii.Error, ValueError):
        text = ""
    if not text.isdigit() or len(text) > _MOST_DIGITS:
        raise UsageError(f"cursor {cursor[:80]!r} is none of this service's", hint="leave it out for the first page")
    return int(text)
