"""Where the processes of one run leave things for each other: a folder that goes with the run."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from uuid import uuid4

from gradassay.goldens.atomic import unwritten
from gradassay.goldens.store.lock import locked, taking

FOLDER = ".parts"
"""The folder inside the report's; each run has one of its own in it."""
GUARD = "guard"
"""The file in it that is locked while runs come and go, and while one publishes."""


def new_run() -> str:
    """An id that no other run has; the controller makes it and tells its workers."""
    return uuid4().hex


def scratch_of(folder: Path, run: str) -> Path:
    """Where the processes of `run` leave their parts, below the report's folder; named by a digest of the id."""
    return folder / FOLDER / hashlib.sha256(run.encode("utf-8", "surrogatepass")).hexdigest()[:16]


@contextmanager
def scratch(folder: Path, run: str) -> Iterator[Path]:
    """The run's scratch folder, made by the controller and removed with the context; workers only write to it.

    What a run left that was killed is removed first: its controller held a lock, and a dead process holds none. Raises
    StoreError where the folder cannot be made.
    """
    own = scratch_of(folder, run)
    lock = own.with_name(f"{own.name}.lock")
    with ExitStack() as held:
        with locked(own.with_name(GUARD)):
            _remove_dead(own.parent)
            held.enter_context(locked(lock))
        try:
            own.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise unwritten(error, str(own), hint="name another folder for the report (--golden-report)") from error
        try:
            yield own
        finally:
            shutil.rmtree(own, ignore_errors=True)
            lock.unlink(missing_ok=True)


def _remove_dead(parts: Path) -> None:
    for lock in parts.glob("*.lock"):
        with taking(lock, wait=False) as held:
            if held:
                shutil.rmtree(lock.with_suffix(""), ignore_errors=True)
                lock.unlink(missing_ok=True)
