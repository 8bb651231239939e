"""Threads of our own: as many as the environment says, and none that a fork would lose."""

from __future__ import annotations

import os
from collections.abc import Iterator

import numpy as np
import pytest

from gradassay.goldens.kernel import threads
from gradassay.goldens.sketch import measure


@pytest.fixture(autouse=True)
def _fresh() -> Iterator[None]:
    threads._forget()
    yield
    threads._forget()


def _several(monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    monkeypatch.setenv("NUMBA_NUM_THREADS", str(number))
    threads._forget()


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({"OMP_NUM_THREADS": "3"}, 3),
        ({"NUMBA_NUM_THREADS": "5", "OMP_NUM_THREADS": "3"}, 5),
        ({"NUMBA_NUM_THREADS": "many", "OMP_NUM_THREADS": "2"}, 2),
        ({"OMP_NUM_THREADS": "0"}, None),
        ({}, None),
    ],
)
def test_count(variables: dict[str, str], expected: int | None, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in threads.VARIABLES:
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert threads.count() == (expected or len(os.sched_getaffinity(0)))


@pytest.mark.parametrize("number", [2, 3, 16, 40])
def test_threads_change_no_bit(number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    values = np.random.default_rng(0).standard_normal(threads.WORTH_WAKING + 777).astype(np.float32)
    _several(monkeypatch, 1)
    alone = measure(values)
    _several(monkeypatch, number)
    shared = measure(values)
    assert np.array_equal(alone.sketch, shared.sketch)
    assert (alone.norm2, alone.absmax, alone.nonfinite) == (shared.norm2, shared.absmax, shared.nonfinite)


def test_an_error_on_another_thread_is_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    _several(monkeypatch, 3)

    def job(number: int) -> None:
        if number == 0:
            raise ValueError("the first")

    with pytest.raises(ValueError, match="the first"):
        threads.each(job, [(0,), (1,), (2,)], elements=threads.WORTH_WAKING)


def test_a_forked_process_starts_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    _several(monkeypatch, 2)
    values = np.ones(threads.WORTH_WAKING, dtype=np.float32)
    expected = measure(values).norm2
    child = os.fork()
    if child == 0:
        os._exit(0 if measure(values).norm2 == expected else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
