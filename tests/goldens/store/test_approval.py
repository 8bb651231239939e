"""The history as a pure function of its entries."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from gradassay.goldens.store.approval import Approval, channels, effective


def entry(version: int, previous: int | None, channel: str = "approved") -> Approval:
    return Approval(name="n", channel=channel, version=version, previous=previous, who="ada", why="w", when="now")


def test_entry_that_comes_too_late_never_counts():
    won, lost, later = entry(2, 1), entry(3, 1), entry(1, 2)
    history = [entry(1, None), won, lost, later]
    assert effective(history) == (history[0], won, later)
    assert channels(history) == {"approved": 1}


def test_first_entry_must_replace_nothing():
    assert effective([entry(2, 1)]) == ()


@given(
    st.lists(
        st.builds(entry, st.integers(1, 3), st.none() | st.integers(1, 3), st.sampled_from(["approved", "nightly"])),
        max_size=12,
    )
)
def test_each_effective_entry_replaces_the_one_before_in_its_channel(history: list[Approval]):
    for channel in ("approved", "nightly"):
        taken = [kept for kept in effective(history) if kept.channel == channel]
        assert [kept.previous for kept in taken] == [None, *(kept.version for kept in taken)][: len(taken)]
    assert effective(effective(history)) == effective(history)
