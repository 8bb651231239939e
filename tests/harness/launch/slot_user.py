"""A process that uses slots: `FOLDER COUNT` and orders on stdin, or `FOLDER COUNT CELLS SEED` to run by itself.

Orders: `take RANKS` (asks until it has them), `ask RANKS` (once), `release`, `fork` (a child that lives on). Each is
answered by one line.
"""

from __future__ import annotations

import os
import random
import sys
import time
from pathlib import Path

from gradassay.harness.launch.slots import POLL_S, SharedSlots, Taken, core_slots


def take(slots: SharedSlots, ranks: int) -> Taken:
    """Slots, however long it takes."""
    while (taken := slots.take(ranks)) is None:
        time.sleep(POLL_S)
    return taken


def obey(slots: SharedSlots) -> None:
    """Does what stdin says."""
    held: list[Taken] = []
    for line in sys.stdin:
        order, _, number = line.strip().partition(" ")
        answer = "done"
        if order == "take":
            held.append(take(slots, int(number)))
        elif order == "ask":
            taken = slots.take(int(number))
            held += [taken] if taken else []
            answer = "got" if taken else "none"
        elif order == "release":
            held.pop().release()
        elif order == "fork":
            child = os.fork()
            if child == 0:
                time.sleep(600)
                os._exit(0)
            answer = str(child)
        print(answer, flush=True)


def use(slots: SharedSlots, folder: Path, cells: int, seed: int) -> None:
    """Takes slots for cells of many sizes, and proves for each cell that no more ranks run than there are slots."""
    chance = random.Random(seed)
    for _ in range(cells):
        ranks = chance.choice((1, 1, 2, slots.count, 2 * slots.count))
        taken = take(slots, ranks)
        units = [_claim(folder, slots.count) for _ in range(min(ranks, slots.count))]
        time.sleep(chance.random() * 0.005)
        for unit in units:
            unit.unlink()
        taken.release()
        print(ranks, flush=True)


def _claim(folder: Path, count: int) -> Path:
    for number in range(count):
        try:
            (folder / f"claim-{number}").touch(exist_ok=False)
        except FileExistsError:
            continue
        return folder / f"claim-{number}"
    raise SystemExit(f"more than {count} ranks at once")


if __name__ == "__main__":
    where, count, *numbers = sys.argv[1:]
    shared = SharedSlots(Path(where), core_slots(range(int(count))))
    if numbers:
        use(shared, Path(where), *map(int, numbers))
    else:
        obey(shared)
