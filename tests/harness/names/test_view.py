"""Views: any chain of steps picks the elements that the same steps pick from an array of their indexes."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from gradassay.harness.names.view import View


def elements(view: View) -> NDArray[np.int64]:
    """The view's elements by their place in the framework's flattened tensor, in canonical order."""
    whole = np.arange(int(np.prod(view.sizes))).reshape(view.sizes)
    box = whole[tuple(slice(first, first + size) for first, size in zip(view.first, view.extent, strict=True))]
    return box.transpose(view.order).reshape(view.shape)


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_steps_are_those_of_numpy(data: st.DataObject) -> None:
    shape = tuple(data.draw(st.lists(st.sampled_from([1, 2, 3, 4, 6]), min_size=1, max_size=3)))
    view, array = View.whole(shape), np.arange(int(np.prod(shape))).reshape(shape)
    grouped = False
    for step in data.draw(st.lists(st.sampled_from(["transposed", "selected", "narrowed", "grouped"]), max_size=5)):
        if not view.shape:
            break
        axis = data.draw(st.integers(0, len(view.shape) - 1))
        size = view.shape[axis]
        first = data.draw(st.integers(0, size - 1))
        if step == "transposed":
            order = tuple(data.draw(st.permutations(range(len(view.shape)))))
            view, array = view.transposed(order), array.transpose(order)
        elif grouped:
            continue
        elif step == "selected":
            view, array = view.selected(axis, first), array.take(first, axis)
        elif step == "narrowed":
            rows = data.draw(st.integers(1, size - first))
            view, array = view.narrowed(axis, first, rows), array.take(range(first, first + rows), axis)
        elif view.shape == shape:
            groups = data.draw(st.sampled_from([number for number in (1, 2, 3) if size % number == 0]))
            rows = data.draw(st.integers(1, size // groups))
            picked = np.arange(size).reshape(groups, -1)[:, :rows].reshape(-1)
            view, array, grouped = view.of_groups(axis, groups, 0, rows), array.take(picked, axis), groups > 1
    assert view.shape == array.shape
    assert (elements(view) == array).all()


def test_a_block_keeps_its_axis() -> None:
    view = View.whole((6, 2)).block(0, 3, 1)
    assert elements(view).tolist() == [[4, 5], [6, 7]]
    assert elements(view.of_groups(0, 2, 0, 1)).tolist() == [[4, 5], [6, 7]]
    assert elements(View.whole((12, 1)).block(0, 3, 2).of_groups(0, 2, 1, 1)).tolist() == [[9], [11]]


def test_what_no_rule_does() -> None:
    with pytest.raises(AssertionError, match="cannot be narrowed again"):
        View.whole((6, 2)).of_groups(0, 2, 0, 2).narrowed(0, 0, 3)
    with pytest.raises(AssertionError, match="only a whole axis"):
        View.whole((6, 2)).narrowed(0, 0, 4).of_groups(0, 2, 0, 1)
