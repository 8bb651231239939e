"""Clipped and unreduced gradients by their values, and coincidences that are no sign of anything."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from gradassay.goldens.errors import WrongMoment
from gradassay.goldens.header import Parameter
from gradassay.goldens.record import Capture
from gradassay.goldens.sketch import measure
from gradassay.harness.capture.moment.values import check_cleared, check_clipped, check_reduced

PARAMETERS = tuple(Parameter(name=name, shape=(6000,), family="dense") for name in "abcd")


def _capture(tensors: list[torch.Tensor]) -> Capture:
    found = [measure(tensor.detach().float().numpy()) for tensor in tensors]
    return Capture(
        sketch=np.stack([one.sketch for one in found]),
        norm2=np.array([one.norm2 for one in found]),
        absmax=np.array([one.absmax for one in found]),
        nonfinite=np.array([one.nonfinite for one in found]),
        present=np.ones(len(found), dtype=np.uint8),
    )


def _gradients(seed: int, size: float = 1.0, dtype: torch.dtype = torch.float32) -> list[torch.nn.Parameter]:
    random = torch.Generator().manual_seed(seed)
    parameters = [torch.nn.Parameter(torch.zeros(6000, dtype=dtype)) for _ in PARAMETERS]
    for parameter in parameters:
        parameter.grad = (size * torch.randn(6000, generator=random)).to(dtype)
    return parameters


@pytest.mark.parametrize("limit", [0.05, 0.1, 0.5, 1.0, 2.0, 5.0, 10.0])
def test_a_norm_that_clipping_leaves(limit: float):
    parameters = _gradients(1)
    check_clipped(_capture([one.grad for one in parameters]), torch.float32)
    torch.nn.utils.clip_grad_norm_(parameters, limit)
    with pytest.raises(
        WrongMoment, match=f"clip_grad_norm_ to {limit:g} leaves; by chance that is so once in"
    ) as raised:
        check_clipped(_capture([one.grad for one in parameters]), torch.float32)
    assert raised.value.facts["max_norm"] == limit


def test_norms_below_the_limit_are_left_alone_and_are_no_sign():
    for seed in range(40):
        parameters = _gradients(seed, size=1e-4 * (seed + 1))
        torch.nn.utils.clip_grad_norm_(parameters, 1.0)
        norm = float(torch.cat([one.grad for one in parameters]).norm())
        assert norm < 0.9
        check_clipped(_capture([one.grad for one in parameters]), torch.float32)


def test_in_bfloat16_a_round_norm_is_too_frequent_to_be_a_sign():
    parameters = _gradients(1, dtype=torch.bfloat16)
    torch.nn.utils.clip_grad_norm_(parameters, 1.0)
    check_clipped(_capture([one.grad for one in parameters]), torch.bfloat16)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_values_that_clipping_leaves(dtype: torch.dtype):
    parameters = _gradients(2, dtype=dtype)
    torch.nn.utils.clip_grad_value_(parameters, 0.1)
    with pytest.raises(WrongMoment, match=r"largest magnitude of 4 of 4 parameters is 0.1") as raised:
        check_clipped(_capture([one.grad for one in parameters]), dtype)
    assert raised.value.facts["chance"] < 1e-4


def test_one_parameter_at_a_round_value_is_no_sign():
    parameters = _gradients(3, size=0.01)
    assert parameters[0].grad is not None
    parameters[0].grad[5] = 0.1
    check_clipped(_capture([one.grad for one in parameters]), torch.float32)


def test_cleared():
    capture = _capture([one.grad for one in _gradients(4)])
    check_cleared(capture)
    with pytest.raises(WrongMoment, match="cleared: none of 4 parameters has a gradient"):
        check_cleared(replace(capture, present=np.zeros(4, dtype=np.uint8)))
    with pytest.raises(WrongMoment, match="cleared: the gradients of all 4 parameters are zero"):
        check_cleared(_capture([torch.zeros(6000)] * 4))
    check_cleared(_capture([torch.zeros(6000)] * 3 + [torch.full((6000,), float("nan"))]))


def _with_copies(capture: Capture, factors: list[float], apart: list[int]) -> Capture:
    rows = np.zeros((len(factors), len(PARAMETERS), 1024))
    for index in apart:
        rows[:, index] = np.array(factors)[:, None] * capture.sketch[index]
    return replace(capture, rank_sketch=rows)


def test_unreduced_is_what_differs_everywhere_and_by_more_than_rounding():
    capture = _capture([one.grad for one in _gradients(5)])
    check_reduced(capture, PARAMETERS, torch.float32)
    everywhere, but_one = list(range(4)), list(range(3))
    with pytest.raises(WrongMoment, match="each of 4 parameters has another gradient on every one of 3 ranks"):
        check_reduced(_with_copies(capture, [1, 2, 3], everywhere), PARAMETERS, torch.float32)
    check_reduced(_with_copies(capture, [1, 2, 3], but_one), PARAMETERS, torch.float32)
    check_reduced(_with_copies(capture, [1, 1 + 1e-7, 1 - 1e-7], everywhere), PARAMETERS, torch.float32)
    check_reduced(_with_copies(capture, [1, 1, 3], everywhere), PARAMETERS, torch.float32)
    sharded = tuple(replace(one, shards=((0, 0, 3000), (1, 3000, 6000))) for one in PARAMETERS)
    check_reduced(_with_copies(capture, [1, 2, 3], everywhere), sharded, torch.float32)
