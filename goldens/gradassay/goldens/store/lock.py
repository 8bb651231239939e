"""One writer at a time, among processes and threads of one machine."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from gradassay.goldens.errors import StoreError


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Holds an exclusive lock on the file `path`, made where it is missing and never deleted; waits for its turn.

    The lock goes with the process: one that dies leaves nothing to clean up. Raises StoreError where it cannot be made.
    """
    with taking(path, wait=True):
        yield


@contextmanager
def taking(path: Path, *, wait: bool) -> Iterator[bool]:
    """As `locked`, and whether it is held: without `wait` False where somebody else holds it now."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    except OSError as error:
        raise StoreError(
            f"{path}: could not be opened for writing ({error.strerror or error})",
            hint="check permissions and free space of the store's folder",
            path=str(path),
        ) from error
    try:
        yield _flock(descriptor, wait=wait)
    finally:
        os.close(descriptor)


def _flock(descriptor: int, *, wait: bool) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
