from __future__ import annotations

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st

from gradassay.harness.capture.local import block_runs, local_piece


@st.composite
def _blocks(draw):
    shape = tuple(draw(st.lists(st.integers(1, 5), min_size=0, max_size=4)))
    offset = tuple(draw(st.integers(0, size)) for size in shape)
    extent = tuple(draw(st.integers(0, size - first)) for size, first in zip(shape, offset, strict=True))
    return shape, offset, extent


@given(_blocks())
def test_runs_are_the_elements_of_the_block_in_order(block):
    shape, offset, extent = block
    elements = np.arange(int(np.prod(shape))).reshape(shape)
    wanted = elements[tuple(slice(first, first + size) for first, size in zip(offset, extent, strict=True))].reshape(-1)
    runs = block_runs(shape, offset, extent)
    found = np.concatenate([np.arange(first, first + length) for first, length in runs.tolist()] or [np.empty(0)])
    assert (found == wanted).all()
    assert len(found) == len(wanted)


def test_a_shard_of_rows_is_one_run():
    assert block_runs((10, 4), (3, 0), (2, 4)).tolist() == [[12, 8]]
    assert block_runs((10, 4), (0, 1), (10, 2)).tolist() == [[4 * row + 1, 2] for row in range(10)]


def test_a_plain_parameter_is_whole():
    parameter = torch.nn.Parameter(torch.zeros(3, 2))
    assert local_piece("weight", parameter, None).values is None
    parameter.grad = torch.arange(6.0).reshape(3, 2)
    piece = local_piece("weight", parameter, parameter.grad, replica=2)
    assert piece.runs.tolist() == [[0, 6]]
    assert piece.replica == 2
    assert piece.values is not None
    assert piece.values.tolist() == [0, 1, 2, 3, 4, 5]
