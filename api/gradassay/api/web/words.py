"""Times, counts and digests as pages write them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from fastapi import Request

MINUTE, HOUR, DAY = 60, 3600, 86400
DIGEST_SHOWN = 10


def age(then: datetime, now: datetime) -> str:
    """How long ago, in its largest unit, as in `3 days`; `just now` below a minute, `in 3 days` for what is to come."""
    seconds = (now - then).total_seconds()
    text = _span(abs(seconds))
    if not text:
        return "just now"
    return f"{text} ago" if seconds > 0 else f"in {text}"


def moment(then: datetime) -> str:
    """The time to the minute, in UTC."""
    return f"{then.astimezone(UTC):%Y-%m-%d %H:%M} UTC"


def day(moment: datetime, later: int = 0) -> str:
    """The day `later` days after the moment, in UTC, as forms have it."""
    return f"{moment.astimezone(UTC) + timedelta(days=later):%Y-%m-%d}"


def count(number: int, noun: str) -> str:
    """A number with its noun, as in `1 run` and `2,000 runs`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def short(digest: str) -> str:
    """The beginning of a digest or commit, enough to tell it by."""
    return digest.removeprefix("sha256:")[:DIGEST_SHOWN]


def base_url(request: Request) -> str:
    """Where the service is reached, as in `https://gradassay.example`."""
    return str(request.base_url).rstrip("/")


def _span(seconds: float) -> str:
    for size, noun in ((DAY, "day"), (HOUR, "hour"), (MINUTE, "minute")):
        if seconds >= size:
            return count(int(seconds // size), noun)
    return ""
