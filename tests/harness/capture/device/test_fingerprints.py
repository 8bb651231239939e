from __future__ import annotations

import pytest
import torch

from gradassay.harness.capture.device import choice

pytestmark = [pytest.mark.triton, pytest.mark.usefixtures("interpreted")]

KINDS = [torch.float32, torch.bfloat16, torch.float16, torch.float64]


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_any_change_is_another_number(kind: torch.dtype) -> None:
    values = torch.randn(3_001, generator=torch.Generator().manual_seed(1)).to(kind)
    changed = []
    for place in (0, 1, 1_500, 3_000):
        changed.append(values.clone())
        changed[-1][place] *= 2
    swapped = values.clone()
    swapped[[0, 4]] = swapped[[4, 0]]
    moved = values.roll(8)
    numbers = choice.fingerprints([values, values.clone(), *changed, swapped, moved, -values])
    assert numbers[0] == numbers[1]
    assert len(set(numbers)) == len(numbers) - 1
    assert all(0 <= number < 2**63 for number in numbers)


def test_the_sign_of_a_zero_counts() -> None:
    zeros = torch.zeros(100)
    assert len(set(choice.fingerprints([zeros, -zeros]))) == 2


def test_where_a_tensor_begins_in_memory_does_not_count() -> None:
    memory = torch.randn(5_003, generator=torch.Generator().manual_seed(1)).bfloat16()
    alone, within = memory[3:].clone(), memory[3:]
    assert len(set(choice.fingerprints([alone, within]))) == 1


def test_nothing_and_one_element() -> None:
    assert choice.fingerprints([]) == []
    empty, one = choice.fingerprints([torch.empty(0), torch.ones(1)])
    assert empty != one
