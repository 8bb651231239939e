"""Files that a process holds until it lets go or dies: the kernel keeps the locks, so there is nothing to clean up."""

from __future__ import annotations

import fcntl
import os
import time
from itertools import takewhile
from pathlib import Path

STALE_S = 5.0
TOUCH_S = 1.0
_HELD: set[int] = set()


def _let_go_in_child() -> None:
    """A child forked without exec would share the locks of its parent, and keep them when that is killed."""
    for descriptor in _HELD:
        os.close(descriptor)
    _HELD.clear()


os.register_at_fork(after_in_child=_let_go_in_child)


class Lock:
    """A file that this process holds; inside stands the process id, for those who wait."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        _HELD.add(descriptor)
        os.pwrite(descriptor, f"{os.getpid():<10}\n".encode(), 0)

    def touch(self) -> None:
        """Sets the time of the file's last change to now."""
        os.utime(self._descriptor)

    def release(self) -> None:
        """Lets go of the file; nothing to do in a forked child, which does not hold it."""
        if self._descriptor in _HELD:
            _HELD.discard(self._descriptor)
            fcntl.flock(self._descriptor, fcntl.LOCK_UN)
            os.close(self._descriptor)


def take_lock(path: Path) -> Lock | None:
    """The file `path`, made where it is missing, or None where somebody holds it; never waits."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    if _flock(descriptor, fcntl.LOCK_EX):
        return Lock(descriptor)
    os.close(descriptor)
    return None


def holder(path: Path) -> int | None:
    """The id of the process that holds the file, None where nobody does."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except FileNotFoundError:
        return None
    try:
        if _flock(descriptor, fcntl.LOCK_SH):
            return None
        text = os.pread(descriptor, 16, 0).strip()
    finally:
        os.close(descriptor)
    return int(text) if text.isdigit() else None


class Queue:
    """A place among the processes that wait, first come, first served; a file a process that waits, in a folder.

    A waiter that dies is struck off by those behind it; one that was not heard of for STALE_S (stopped, or busy with
    something else) is passed over, and keeps its place.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._ticket: tuple[str, Lock] | None = None
        self._touched_s = 0.0

    def is_first(self) -> bool:
        """Whether nobody who still waits came before; takes a place where this process has none."""
        name, lock = self._ticket = self._ticket or self._line_up()
        now = time.monotonic()
        if now - self._touched_s >= TOUCH_S:
            lock.touch()
            self._touched_s = now
        return not any(self._waits(other) for other in self._before(name))

    def waiters_before(self) -> list[int]:
        """The process ids of those who wait and came before; nobody where this process does not wait."""
        if self._ticket is None:
            return []
        return [int(other.rpartition("-")[2]) for other in self._before(self._ticket[0]) if self._waits(other)]

    def leave(self) -> None:
        """Gives up the place, if this process has one."""
        if self._ticket is not None:
            name, lock = self._ticket
            self._ticket = None
            (self._folder / name).unlink(missing_ok=True)
            lock.release()

    def _line_up(self) -> tuple[str, Lock]:
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        while True:
            name = f"{time.monotonic_ns():020d}-{os.getpid()}"
            lock = take_lock(self._folder / name)
            if lock is None:
                continue
            # Somebody may have found the file before it was locked, and struck it off.
            if (self._folder / name).exists():
                return name, lock
            lock.release()

    def _before(self, name: str) -> list[str]:
        return list(takewhile(lambda other: other < name, sorted(path.name for path in self._folder.iterdir())))

    def _waits(self, name: str) -> bool:
        path = self._folder / name
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        except FileNotFoundError:
            return False
        try:
            if _flock(descriptor, fcntl.LOCK_EX):
                path.unlink(missing_ok=True)
                return False
            return time.time() - os.fstat(descriptor).st_mtime < STALE_S
        finally:
            os.close(descriptor)


def _flock(descriptor: int, kind: int) -> bool:
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
