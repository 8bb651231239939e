from __future__ import annotations

import numpy as np
import pytest
import torch

from gradassay.goldens.header import Parameter
from gradassay.goldens.kernel import threads
from gradassay.goldens.sketch import sketch
from gradassay.harness.capture.exchange import Exchange
from gradassay.harness.capture.piece import stretch, whole
from gradassay.harness.capture.take import take

ALONE = Exchange(group=None, device=torch.device("cpu"))
WEIGHT = Parameter(name="weight", shape=(100, 30), family="dense")
VALUES = torch.linspace(-1, 2, WEIGHT.numel, dtype=torch.float64)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
def test_figures_are_those_of_the_values(dtype):
    values = VALUES.to(dtype)
    capture = take([whole("weight", values, numel=WEIGHT.numel)], (WEIGHT,), ALONE).capture
    exact = values.double()
    assert np.allclose(capture.sketch[0], sketch(exact.numpy()), atol=1e-12)
    # Squares of narrower values are added in float32, a few hundred at a time.
    assert capture.norm2[0] == pytest.approx(float(exact @ exact), rel=1e-12 if dtype is torch.float64 else 1e-7)
    assert capture.absmax[0] == float(exact.abs().max())
    assert capture.present.tolist() == [1]
    assert capture.rank_sketch is None


def test_pieces_add_up_to_the_whole():
    parts = [stretch("weight", VALUES[a:b], start=a, length=b - a) for a, b in ((0, 777), (777, 1900), (1900, 3000))]
    split, once = (take(pieces, (WEIGHT,), ALONE, full=True).capture for pieces in (parts, [_whole()]))
    assert np.allclose(split.sketch, once.sketch, rtol=1e-12)
    assert split.norm2 == pytest.approx(once.norm2)
    assert split.full is not None
    assert once.full is not None
    assert (split.full["weight"] == once.full["weight"]).all()
    assert (once.full["weight"].reshape(-1) == VALUES.float().numpy()).all()


def _whole():
    return whole("weight", VALUES, numel=WEIGHT.numel)


def test_non_finite_values_are_counted_and_left_out():
    values = VALUES.clone()
    values[3], values[2000] = float("nan"), float("inf")
    capture = take([whole("weight", values, numel=WEIGHT.numel)], (WEIGHT,), ALONE).capture
    assert capture.nonfinite[0] == 2
    assert np.isfinite(capture.sketch).all()


def test_no_gradient_is_not_present():
    capture = take([whole("weight", None, numel=WEIGHT.numel)], (WEIGHT,), ALONE).capture
    assert capture.present.tolist() == [0]
    assert capture.norm2.tolist() == [0]


def test_copies_that_differ_within_one_process():
    pieces = [_whole(), whole("weight", 2 * VALUES, numel=WEIGHT.numel, replica=1)]
    capture = take(pieces, (WEIGHT,), ALONE).capture
    assert capture.rank_sketch is not None
    assert np.allclose(capture.sketch[0], sketch(VALUES.numpy())), "copy 0 is what the record keeps"


@pytest.mark.parametrize("count", [1, 2, 5])
def test_threads_that_share_pieces_change_nothing(count, monkeypatch):
    monkeypatch.setattr(threads, "worth", lambda _elements: count > 1)
    monkeypatch.setattr(threads, "count", lambda: count)
    named = [Parameter(name=f"p{number}", shape=(40 + number, 30), family="dense") for number in range(40)]
    pieces = []
    for parameter in named:
        values, half = torch.randn(parameter.numel, dtype=torch.float64), parameter.numel // 2
        pieces += [
            stretch(parameter.name, values[:half], start=0, length=half),
            stretch(parameter.name, values[half:], start=half, length=parameter.numel - half),
            whole(parameter.name, values, numel=parameter.numel, replica=1),
        ]
    capture = take(pieces, tuple(named), ALONE).capture
    for index in range(len(named)):
        values = pieces[3 * index + 2].values
        assert values is not None
        assert np.allclose(capture.sketch[index], sketch(values.numpy()), atol=1e-12)
        assert capture.norm2[index] == pytest.approx(float(values @ values), rel=1e-12)
