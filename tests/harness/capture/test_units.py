from __future__ import annotations

import numpy as np
import pytest
import torch

from gradassay.goldens.errors import Incomplete
from gradassay.goldens.header import Parameter
from gradassay.goldens.sketch import sketch
from gradassay.harness.capture.exchange import Exchange
from gradassay.harness.capture.piece import stretch, whole
from gradassay.harness.capture.units import UnitSketches, group_count

PARAMETERS = (
    Parameter(name="up", shape=(64, 40), family="dense"),
    Parameter(name="scale", shape=(7,), family="norm"),
)
ALONE = Exchange(group=None, device=torch.device("cpu"))


def test_units_are_kept_apart_and_averaged_over_ranks() -> None:
    units = UnitSketches(PARAMETERS, ALONE, accum=2, dp_rank=1, dp=2)
    first, second = torch.randn(2560), torch.randn(2560)
    units.add([whole("up", first, numel=2560)], 0)
    units.add([stretch("up", second[:1000], start=0, length=1000)], 1)
    units.add([stretch("up", second[1000:], start=1000, length=1560)], 1)
    units.add([whole("scale", torch.tensor([1.0, 2.0, 3.0, 4.0, 5.0, float("inf"), 7.0]), numel=7)], 1)
    capture = units.capture()
    assert capture.units is not None
    assert capture.units.shape == (4, 2, 1024)
    assert not capture.units[[0, 2]].any()
    np.testing.assert_allclose(capture.units[1, 0], sketch(first.numpy()), rtol=1e-12)
    np.testing.assert_allclose(capture.units[3, 0], sketch(second.numpy()), atol=1e-12)
    np.testing.assert_allclose(capture.sketch[0], (capture.units[1, 0] + capture.units[3, 0]) / 2)
    assert capture.nonfinite.tolist() == [0, 1]
    assert capture.present.tolist() == [1, 1]
    again = units.capture()
    assert not again.sketch.any()
    assert again.present.tolist() == [0, 0]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64, torch.float16])
def test_a_whole_gradient_is_added_as_its_piece_is(dtype: torch.dtype) -> None:
    up, scale = torch.randn(40, 64).t().to(dtype), torch.tensor([1.0, 2.0, float("nan"), 4, 5, 6, 7]).to(dtype)
    units = UnitSketches(PARAMETERS, ALONE, accum=2, whole={"net.up": "up", "net.scale": "scale"})
    assert units.add_whole("net.up", up, 1)
    assert units.add_whole("net.up", up.requires_grad_(), 1), "a parameter may be used twice"
    assert units.add_whole("net.scale", scale, 0)
    found = units.capture()
    units.add([whole("up", up, numel=2560)] * 2, 1)
    units.add([whole("scale", scale, numel=7)], 0)
    expected = units.capture()
    assert found.units is not None
    assert expected.units is not None
    np.testing.assert_array_equal(found.units, expected.units)
    assert found.present.tolist() == [1, 1]
    assert found.nonfinite.tolist() == expected.nonfinite.tolist() == [0, 1]
    assert found.absmax.tolist() == expected.absmax.tolist()


def test_what_is_not_whole_is_left_to_pieces() -> None:
    units = UnitSketches(PARAMETERS, ALONE, accum=1, whole={"net.up": "up"})
    assert not units.add_whole("net.scale", torch.ones(7), 0)
    assert not units.add_whole("net.up", torch.ones(64, 39), 0)
    assert not units.add_whole("net.up", torch.nn.Parameter(torch.ones(64, 40)), 0), "a tensor of another kind"
    assert not units.capture().present.any()


def test_what_is_no_parameter_is_refused() -> None:
    with pytest.raises(Incomplete, match="'down'"):
        UnitSketches(PARAMETERS, ALONE, accum=1).add([whole("down", torch.ones(3), numel=3)], 0)


@pytest.mark.parametrize(
    ("dp", "accum", "groups"), [(4, 3, 4), (64, 1, 64), (64, 2, 32), (96, 4, 16), (97, 1, 1), (1024, 8, 8), (6, 100, 1)]
)
def test_neighbours_are_added_up_where_units_would_be_many(dp: int, accum: int, groups: int) -> None:
    assert group_count(dp, accum) == groups
    assert dp % groups == 0


def test_groups_of_ranks_hold_their_sum() -> None:
    units = UnitSketches(PARAMETERS, ALONE, accum=4, dp_rank=50, dp=96)
    units.add([whole("scale", torch.ones(7), numel=7)], 3)
    capture = units.capture()
    assert capture.units is not None
    assert np.argwhere(capture.units[:, 1].any(axis=1)).tolist() == [[3 * 16 + 50 // 6]]
