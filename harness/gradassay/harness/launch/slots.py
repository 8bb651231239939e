"""Who may run how many ranks now: a pool for itself, or all pools of a user's processes on one machine together."""

from __future__ import annotations

import os
import stat
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf
from pathlib import Path
from typing import Protocol
from urllib.parse import quote

from gradassay.goldens.errors import UsageError
from gradassay.harness.launch.devices import VARIABLE, visible_gpus
from gradassay.harness.launch.locks import Lock, Queue, holder, take_lock

POLL_S = 0.02
_PLACES = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Taken:
    """Slots that one cell has. release: gives them back. variables: for the environment of the cell's ranks."""

    release: Callable[[], None]
    variables: Mapping[str, str] = field(default_factory=dict)


class Slots(Protocol):
    """Slots for ranks, as one pool asks for them."""

    @property
    def count(self) -> int:
        """How many there are."""
        ...

    @property
    def noun(self) -> str:
        """What they are, in the plural."""
        ...

    @property
    def poll_s(self) -> float:
        """How often to ask again where others than this pool may give slots back; infinite where none may."""
        ...

    def take(self, ranks: int) -> Taken | None:
        """Slots for so many ranks, all of them where there are fewer, or None where this must wait; never blocks.

        Who got None keeps a place among those who wait until it gets slots or leaves.
        """
        ...

    def leave(self) -> None:
        """Gives up the place among those who wait."""
        ...

    def others(self) -> list[int]:
        """The ids of the processes that have slots, or wait and came before; this pool's own slots left out."""
        ...


class OwnSlots:
    """Slots that one pool has for itself."""

    noun = "slots"
    poll_s = inf

    def __init__(self, count: int) -> None:
        self.count = count
        self._free = count

    def take(self, ranks: int) -> Taken | None:
        """As Slots.take."""
        wanted = min(ranks, self.count)
        if wanted > self._free:
            return None
        self._free -= wanted
        return Taken(release=lambda: self._give_back(wanted))

    def leave(self) -> None:
        """Nobody else waits."""

    def others(self) -> list[int]:
        """Nobody."""
        return []

    def _give_back(self, number: int) -> None:
        self._free += number


@dataclass(frozen=True, slots=True, kw_only=True)
class Slot:
    """One slot. name: of its lock file. device: what CUDA_VISIBLE_DEVICES calls it, empty where it is no GPU."""

    name: str
    device: str = ""


def core_slots(numbers: Sequence[int], *, each: int = 1) -> list[Slot]:
    """Slots on processor cores, so many on each."""
    return [Slot(name=f"core-{number}-{place}") for place in range(each) for number in numbers]


class SharedSlots:
    """Slots that all processes share which name the same folder; one object a pool.

    A cell gets all the slots that it needs at once or none, and only who has waited longest gets any, so that nobody
    waits for ever, however many ranks it has. The slots of a process that dies are free at once.
    """

    poll_s = POLL_S

    def __init__(self, folder: Path, slots: Sequence[Slot]) -> None:
        self._folder = folder
        self._slots = tuple(slots)
        self._queue = Queue(folder / "queue")
        self._mine: set[str] = set()

    @property
    def count(self) -> int:
        """How many there are."""
        return len(self._slots)

    @property
    def noun(self) -> str:
        """GPUs, or places on cores."""
        return "GPUs" if self._slots[0].device else "places"

    def take(self, ranks: int) -> Taken | None:
        """As Slots.take."""
        if not self._queue.is_first():
            return None
        held = self._gather(min(ranks, self.count))
        if held is None:
            return None
        self._queue.leave()
        self._mine |= {slot.name for slot in held}
        devices = ",".join(slot.device for slot in held if slot.device)
        return Taken(release=lambda: self._give_back(held), variables={VARIABLE: devices} if devices else {})

    def leave(self) -> None:
        """As Slots.leave."""
        self._queue.leave()

    def others(self) -> list[int]:
        """As Slots.others; this process where another of its pools has slots."""
        holders = [holder(self._folder / slot.name) for slot in self._slots if slot.name not in self._mine]
        return sorted({*filter(None, holders), *self._queue.waiters_before()})

    def _gather(self, wanted: int) -> dict[Slot, Lock] | None:
        held: dict[Slot, Lock] = {}
        for slot in self._slots:
            lock = take_lock(self._folder / slot.name)
            if lock is not None:
                held[slot] = lock
            if len(held) == wanted:
                return held
        for lock in held.values():
            lock.release()
        return None

    def _give_back(self, held: Mapping[Slot, Lock]) -> None:
        self._mine -= {slot.name for slot in held}
        for lock in held.values():
            lock.release()


def machine_slots() -> SharedSlots:
    """The slots of this user on this machine: its GPUs, where it has any that CUDA_VISIBLE_DEVICES does not hide, else places
    on cores.

    Cores are those that this process may run on. Each has two places, as ranks wait for each other a good part of the time.
    Raises UsageError where there is no folder that only this user can write.
    """
    gpus = [Slot(name=f"gpu-{quote(gpu.uuid, safe='')}", device=gpu.name) for gpu in visible_gpus()]
    return SharedSlots(machine_folder(), gpus or core_slots(sorted(os.sched_getaffinity(0)), each=_PLACES))


def machine_folder() -> Path:
    """A folder of this user alone on this machine, the same for all of the user's processes, and made where it is missing."""
    user = os.getuid()
    session = Path(os.environ.get("XDG_RUNTIME_DIR") or f"/run/user/{user}")
    folder = session / "gradassay" if _is_private(session) else Path(tempfile.gettempdir(), f"gradassay-{user}")
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
    except OSError as error:
        raise UsageError(
            f"{folder}, where processes agree who runs cells now, could not be made ({error.strerror})",
            hint="set XDG_RUNTIME_DIR to a folder that only you can read and write",
        ) from error
    if not _is_private(folder):
        raise UsageError(
            f"{folder}, where processes agree who runs cells now, is not a folder that only you can write",
            hint="remove it, or set XDG_RUNTIME_DIR to a folder that only you can read and write",
        )
    return folder


def _is_private(folder: Path) -> bool:
    try:
        found = folder.lstat()
    except OSError:
        return False
    mine = stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid()
    return mine and not found.st_mode & (stat.S_IWGRP | stat.S_IWOTH) and os.access(folder, os.W_OK | os.X_OK)
