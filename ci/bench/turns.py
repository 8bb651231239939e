"""Tasks timed in turns, so that what a machine does besides hits all of them alike."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from statistics import median


def in_turns(
    tasks: Mapping[str, Callable[[], object]],
    rounds: int,
    *,
    before: Callable[[], object] | None = None,
    warm_s: float = 0.0,
) -> dict[str, list[float]]:
    """Seconds of every task in each round, after one that is not counted; the order is turned round every time.

    before: called ahead of each task, off the clock. warm_s: how long each task runs before that, off the clock as well, so
    that its own threads are awake, and those of others have stopped to spin.
    """
    seconds: dict[str, list[float]] = {name: [] for name in tasks}
    for number in range(rounds + 1):
        for name in list(tasks)[:: -1 if number % 2 else 1]:
            warm = time.perf_counter() + warm_s
            while time.perf_counter() < warm:
                tasks[name]()
            if before is not None:
                before()
            began = time.perf_counter()
            tasks[name]()
            spent = time.perf_counter() - began
            if number:
                seconds[name].append(spent)
    return seconds


def ratio(over: Sequence[float], under: Sequence[float]) -> float:
    """The median of the ratios of pairs of the same round."""
    return median(one / other for one, other in zip(over, under, strict=True))
