"""Layouts: sizes that divide, units that are numbered, texts that are read back."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gradassay.goldens.errors import UsageError
from gradassay.goldens.layout import Layout

layouts = st.builds(
    lambda ep, edp, accum, tp, pp, cp: Layout(dp=ep * edp, ep=ep, accum=accum, tp=tp, pp=pp, cp=cp),
    *[st.integers(1, 6)] * 6,
)


@given(layouts)
def test_texts_are_read_back(layout: Layout) -> None:
    assert Layout.parse(str(layout)) == layout
    assert Layout(**layout.to_json()) == layout


@given(layouts)
def test_units_are_numbered_once(layout: Layout) -> None:
    units = [layout.unit(rank, micro) for micro in range(layout.accum) for rank in range(layout.dp)]
    assert units == list(range(layout.units))


@given(layouts)
def test_groups_meet_in_one_rank(layout: Layout) -> None:
    for rank in range(layout.dp):
        assert set(layout.ep_group(rank)) & set(layout.edp_group(rank)) == {rank}
        assert len(layout.ep_group(rank)) == layout.ep
        assert len(layout.edp_group(rank)) == layout.edp


@pytest.mark.parametrize(
    "sizes",
    [{"dp": 0}, {"dp": -1}, {"accum": 1.5}, {"dp": True}, {"dp": "4"}, {"dp": 4, "ep": 3}, {"dp": 4, "replicate": 8}],
)
def test_sizes_that_make_no_layout(sizes: dict[str, int]) -> None:
    with pytest.raises(UsageError) as caught:
        Layout(**sizes)
    assert list(sizes)[-1] in caught.value.message


def test_the_hint_lists_divisors_of_any_size_at_once() -> None:
    with pytest.raises(UsageError) as caught:
        Layout(dp=12, ep=5)
    assert "1, 2, 3, 4, 6, 12" in caught.value.hint
    with pytest.raises(UsageError):
        Layout(dp=10**15, ep=7)


@pytest.mark.parametrize(
    "text", ["", "dp", "4", "dp4.dp2", "xp4", "dp4,ep2", "dp4.ep3", "dp-4", f"dp{'9' * 5000}", "dp٤"]
)
def test_texts_that_make_no_layout(text: str) -> None:
    with pytest.raises(UsageError):
        Layout.parse(text)
