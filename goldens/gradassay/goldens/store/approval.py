"""Approvals: an append-only history, from which the version that each channel points to is derived."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from gradassay.goldens.errors import Conflict, UsageError

DEFAULT_CHANNEL = "approved"
_CHANNEL = re.compile(r"[a-z][a-z0-9-]{0,63}")
_RESERVED = re.compile(r"latest|v\d+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Approval:
    """One entry of the history: who pointed a channel at which version, when and why, and where it pointed before.

    version: 0 where the channel points nowhere since. previous: the version it replaced, None where there was none.
    when: UTC, ISO 8601.
    """

    name: str
    channel: str
    version: int
    previous: int | None
    who: str
    why: str
    when: str

    def to_json(self) -> dict[str, Any]:
        """The entry as the ledger holds it."""
        return asdict(self)


def effective(entries: Iterable[Approval]) -> tuple[Approval, ...]:
    """The entries that took effect, in order: those that replaced what their channel pointed to at that moment.

    Two writers that both saw version 1 may both append; the second entry says `previous = 1` when the channel already
    points elsewhere, and never counts. Every reader of the same entries comes to the same answer.
    """
    present: dict[str, int | None] = {}
    taken = []
    for entry in entries:
        if entry.previous == present.get(entry.channel):
            present[entry.channel] = entry.version or None
            taken.append(entry)
    return tuple(taken)


def channels(entries: Iterable[Approval]) -> dict[str, int]:
    """The version that each channel points to now; channels that point nowhere are left out."""
    last = {entry.channel: entry.version for entry in effective(entries)}
    return {channel: version for channel, version in last.items() if version}


def check_request(channel: str, who: str, why: str) -> None:
    """Raises UsageError for a channel that a store cannot name, or an approval without who and why."""
    if _CHANNEL.fullmatch(channel) is None or _RESERVED.fullmatch(channel):
        raise UsageError(
            f"channel {channel!r} cannot be used",
            hint="write lower-case letters, digits and hyphens, as in 'approved'; 'latest' and 'v1' are reserved",
            channel=channel,
        )
    for word, value in (("who", who), ("why", why)):
        if not value.strip():
            raise UsageError(f"an approval must say {word}", hint="it stays in the history for those who come later")


def check_expected(name: str, channel: str, expected: int | None, present: int | None) -> None:
    """Raises Conflict where the caller expected another version (0: none) than the one `channel` points to."""
    if expected is not None and expected != (present or 0):
        raise Conflict(
            f"golden {name}: {channel} points to {version_text(present)}, not to {version_text(expected or None)}",
            hint="look at what changed (gradassay golden show), then decide again",
            golden=name,
            channel=channel,
            expected=expected,
            present=present,
        )


def check_unused(name: str, version: int, channels: Sequence[str]) -> None:
    """Raises Conflict where the version that is to be deleted is what channels point to."""
    if channels:
        raise Conflict(
            f"golden {name}: v{version} is {', '.join(channels)}, and was not deleted",
            hint="approve another version first",
            golden=name,
            version=version,
        )


def version_text(version: int | None) -> str:
    """The version as messages write it: `v3`, or `no version`."""
    return "no version" if version is None else f"v{version}"
