"""Tells people why a cell does not run yet, so that it never waits in silence."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from math import inf

from gradassay.harness.cell import Cell
from gradassay.harness.launch.slots import Slots

FIRST_S = 1.0
AGAIN_S = 60.0


class Notice:
    """Says whom a cell waits for when it has waited FIRST_S, and again every AGAIN_S; a pool's own cells are no news."""

    def __init__(self, slots: Slots, say: Callable[[str], None]) -> None:
        self._slots = slots
        self._say = say
        self._due_s = inf

    def waits(self, cell: Cell) -> None:
        """Called whenever the cell asked for slots in vain."""
        now = time.monotonic()
        if self._due_s == inf:
            self._due_s = now + FIRST_S
        if now < self._due_s:
            return
        self._due_s = now + AGAIN_S
        others = ["this process" if pid == os.getpid() else f"process {pid}" for pid in self._slots.others()]
        if others:
            wanted = min(cell.layout.world, self._slots.count)
            self._say(
                f"{cell} waits for {wanted} of {self._slots.count} {self._slots.noun}: "
                f"{_listed(others)} {'has' if len(others) == 1 else 'have'} them or came first"
            )

    def over(self) -> None:
        """Called when the cell got its slots."""
        self._due_s = inf


def _listed(names: list[str]) -> str:
    *most, last = names
    return f"{', '.join(most)} and {last}" if most else last
