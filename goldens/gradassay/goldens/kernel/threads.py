"""Threads for kernels that let go of the interpreter's lock.

Not those of OpenMP, which numba's parallel loops would take: torch computes on them too, and two pools that spin while they
wait make both slower many times over where ranks share a machine.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import cache
from queue import Empty, SimpleQueue
from typing import Any

VARIABLES = ("NUMBA_NUM_THREADS", "OMP_NUM_THREADS")
"""Environment variables that say how many threads a process may use, the first one that is a number; else its CPUs."""

WORTH_WAKING = 1 << 24
"""Elements below which one thread is done before another has been woken."""


@cache
def count() -> int:
    """How many threads this process may use: 1 for a rank that torchrun has started."""
    for name in VARIABLES:
        if (given := os.environ.get(name, "")).isdecimal() and int(given):
            return int(given)
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def worth(elements: int) -> bool:
    """Whether there are others than the calling thread, and so much to do that they do a part of it once they are awake."""
    return elements >= WORTH_WAKING and count() > 1


def each(job: Callable[..., Any], arguments: Iterable[tuple[Any, ...]], *, elements: int) -> None:
    """Runs `job` with each of the arguments, on the calling thread and, where that is `worth` it, others: whoever is free
    takes the next. elements: of all jobs together.
    """
    waiting: SimpleQueue[tuple[Any, ...]] = SimpleQueue()
    for given in arguments:
        waiting.put(given)

    def work() -> None:
        with suppress(Empty):
            while True:
                job(*waiting.get_nowait())

    helpers = min(count(), waiting.qsize()) - 1 if worth(elements) else 0
    others = [_pool().submit(work) for _ in range(helpers)]
    work()
    for other in others:
        if not other.cancel():
            other.result()


@cache
def _pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(max_workers=max(count() - 1, 1), thread_name_prefix="sketch")


def _forget() -> None:
    """A forked process has none of its parent's threads, and its own variables."""
    count.cache_clear()
    _pool.cache_clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
