"""Tasks timed in turns, so that what a machine does besides hits all of them alike."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from statistics import median


def in_turns(
    tasks: Mapping[str, Callable[[], object]], rounds: int, *, before: Callable[[], object] | None = None
) -> dict[str, list[float]]:
    """Seconds of every task in each round, after one that is not counted; the order is turned round every time.

    before: called ahead of each task, off the clock.
    """
    seconds: dict[str, list[float]] = {name: [] for name in tasks}
    for number in range(rounds + 1):
        for name in list(tasks)[:: -1 if number % 2 else 1]:
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
