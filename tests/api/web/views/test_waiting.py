"""What waits for review, and what may be approved together."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from gradassay.api.ledger.standing import Status
from gradassay.api.ledger.version import Version
from gradassay.api.web.views.waiting import Wanted, by_cause, drift_of, waiting
from gradassay.goldens.errors import UsageError


def version(
    name: str, number: int = 2, *, status: Status = Status.PROPOSED, drift: dict[str, Any] | None = None
) -> Version:
    return Version(
        name=name,
        project="default",
        version=number,
        digest="sha256:0",
        status=status,
        channels=(),
        facts={},
        drift=drift,
        proposed_at=datetime(2026, 11, 30, tzinfo=UTC),
        proposed_by="ci",
        why="",
        approved_in={},
        endorsed=(),
        rejected=None,
    )


ROUNDING = {"against": 1, "kind": "rounding", "cause": "torch 2.9 -> 2.10", "sentence": "rounding: 3 of 4"}
STRUCTURED = {"against": 1, "kind": "structured", "cause": "", "sentence": "structured: router twice as large"}


def test_versions_of_one_cause_are_approved_together():
    groups = by_cause(
        [version("b", drift=STRUCTURED), version("a", drift=ROUNDING), version("c", drift=ROUNDING), version("d")],
        {"a": {"approved": 1}, "b": {"approved": 1}, "c": {"approved": 1, "nightly": 2}},
    )
    assert [(group.kind, group.cause, group.together) for group in groups] == [
        ("rounding", "torch 2.9 -> 2.10", True),
        ("structured", "structured: router twice as large", False),
        ("", "", False),
    ]
    assert [str(one.wanted) for one in groups[0].members] == ["a@v2=1", "c@v2=1"]


def test_structured_changes_stand_alone_even_where_they_say_the_same():
    groups = by_cause(
        [version("a", drift=STRUCTURED), version("b", drift=STRUCTURED), version("c"), version("d")],
        {"a": {"approved": 1}, "b": {"approved": 1}},
    )
    assert [len(group.members) for group in groups] == [1, 1, 1, 1]


def test_only_undecided_versions_wait():
    every = [version("a", number, status=status) for number, status in enumerate(Status, start=1)]
    assert [one.status for one in waiting(every)] == [Status.PROPOSED, Status.ENDORSED]


def test_drift_from_what_is_no_longer_approved_says_nothing():
    assert drift_of(version("a"), 0) == ("", "")
    assert drift_of(version("a"), 1) == ("", "")
    assert drift_of(version("a", drift=STRUCTURED), 1) == ("structured", "structured: router twice as large")
    assert drift_of(version("a", drift=ROUNDING), 2) == ("", "")


@pytest.mark.parametrize("name", ["toy.float32", "odd@v3=1.float32", "two\nlines", "a/b"])
def test_form_value_comes_back_as_it_was_written(name: str):
    wanted = Wanted(name=name, version=12, expected=3)
    assert Wanted.parse(str(wanted)) == wanted


@pytest.mark.parametrize("text", ["", "toy@v1", "toy=1", "toy@v1=", "toy@vx=1", "@v1=1"])
def test_other_form_values_are_refused(text: str):
    with pytest.raises(UsageError, match="names no version"):
        Wanted.parse(text)
