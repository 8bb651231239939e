from __future__ import annotations

import numpy as np
from bench.memory import peak_added

SIZE = 64 * 2**20


def test_a_temporary_is_seen_even_when_it_is_gone() -> None:
    assert peak_added(lambda: float(np.ones(SIZE // 8).sum())) > 0.9 * SIZE


def test_memory_that_was_freed_before_does_not_hide_it() -> None:
    pieces = [np.ones(2**13) for _ in range(SIZE // 2**16)]
    keeps_the_heap_long = np.ones(2**10)
    del pieces
    added = peak_added(lambda: [np.ones(2**13) for _ in range(SIZE // 2**16)])
    assert added > 0.9 * SIZE
    assert len(keeps_the_heap_long) == 2**10


def test_reading_what_is_there_adds_nothing_of_its_size() -> None:
    values = np.ones(SIZE // 8)
    assert peak_added(lambda: float(values.sum())) < 0.1 * SIZE
