from __future__ import annotations

import hashlib

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st

from gradassay.harness.problems.counter import DEVIATION, bells, below, hadamard, shuffled, to_bfloat16, words

MASK = 2**64 - 1


def _splitmix(z: int) -> int:
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 & MASK
    z = (z ^ z >> 27) * 0x94D049BB133111EB & MASK
    return z ^ z >> 31


def test_words_are_splitmix64_of_a_counter():
    first = int(words(5, "name", 1)[0])
    key = int.from_bytes(hashlib.sha256(b"5:name").digest()[:8], "little")
    assert first == _splitmix((key + 0x9E3779B97F4A7C15) & MASK)
    assert int(words(5, "name", 1, start=999)[0]) == _splitmix((key + 1000 * 0x9E3779B97F4A7C15) & MASK)


def test_a_number_depends_on_its_place_alone():
    assert (words(1, "a", 100)[40:60] == words(1, "a", 20, start=40)).all()
    assert (bells(1, "a", 2**15 + 10)[:50] == bells(1, "a", 50)).all()
    assert not (words(1, "a", 100) == words(1, "b", 100)).any()
    assert not (words(1, "a", 100) == words(2, "a", 100)).any()


def test_bells_have_the_moments_they_claim():
    drawn = bells(3, "moments", 200_000) / DEVIATION
    assert abs(drawn.mean()) < 0.01
    assert abs(drawn.std() - 1) < 0.01
    assert abs((drawn**4).mean() - 2.7) < 0.05, "the fourth moment of a sum of four uniform numbers"


def test_below_is_even_and_in_range():
    counts = np.bincount(below(1, "dice", 6, 60_000), minlength=6)
    assert counts.shape == (6,)
    assert abs(counts - 10_000).max() < 500


def test_shuffled_is_a_permutation():
    assert sorted(shuffled(1, "cards", 52).tolist()) == list(range(52))


@given(st.lists(st.floats(-1e6, 1e6, width=32), min_size=1, max_size=50))
def test_to_bfloat16_rounds_as_torch_does(values):
    expected = torch.tensor(values, dtype=torch.float32).bfloat16().float().numpy()
    assert (to_bfloat16(np.array(values, dtype=np.float64)) == expected).all()


def test_hadamard_is_its_definition():
    width = 16
    matrix = np.array([[(-1) ** bin(row & column).count("1") for column in range(width)] for row in range(width)])
    rows = bells(1, "rows", 5 * width).reshape(5, width)
    assert (hadamard(rows) == rows @ matrix).all()
