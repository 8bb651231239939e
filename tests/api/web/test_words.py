"""Times and counts in words, and addresses."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from starlette.datastructures import URL

from gradassay.api.web.address import address, link
from gradassay.api.web.words import age, count, day, moment, short

NOON = datetime(2026, 11, 30, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("back", "expected"),
    [
        (timedelta(seconds=59), "just now"),
        (timedelta(seconds=60), "1 minute ago"),
        (timedelta(hours=1, minutes=59), "1 hour ago"),
        (timedelta(days=2), "2 days ago"),
        (timedelta(days=-3), "in 3 days"),
        (timedelta(days=1500), "1,500 days ago"),
    ],
)
def test_age_is_in_the_largest_unit(back: timedelta, expected: str):
    assert age(NOON - back, NOON) == expected


def test_times_are_in_utc():
    there = NOON.astimezone(tz=datetime.fromisoformat("2026-01-01T00:00:00+09:00").tzinfo)
    assert moment(there) == "2026-11-30 12:00 UTC"
    assert day(there, 31) == "2026-12-31"


def test_counts_have_their_noun():
    assert [count(number, "run") for number in (0, 1, 2000)] == ["0 runs", "1 run", "2,000 runs"]


def test_digests_are_short():
    assert short("sha256:0123456789abcdef") == "0123456789"


def test_address_keeps_what_is_not_changed():
    url = URL("http://x/runs/1?q=a%26b&sort=&page=3")
    assert address(url, page=4) == "/runs/1?q=a%26b&page=4"
    assert address(url, q="", page=None) == "/runs/1"
    assert address(url, sort="-ratio", page="") == "/runs/1?q=a%26b&sort=-ratio"


def test_link_leaves_out_what_is_empty():
    assert link("/diff", a="1&2", b="") == "/diff?a=1%262"
    assert link("/diff", a=None) == "/diff"
