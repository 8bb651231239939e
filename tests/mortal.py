"""A service process that ends by SIGKILL at a chosen line of our code: a `kill -9` that can be repeated.

Processes are forked from one that has imported everything, so that a new one answers within a fraction of a second.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from types import FrameType
from typing import Any

DEADLINE_S = 120.0
WATCHED = ("/gradassay/api/", "/gradassay/goldens/store/", "/gradassay/goldens/atomic.py")
NEVER = -1
LEASE_S = 1.0
_forks = multiprocessing.get_context("forkserver")
_forks.set_forkserver_preload(
    ["gradassay.api.operations.serving", "gradassay.goldens.assay.compare", "mlflow.tracking.client"]
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Mortal:
    """A running process. Once armed, it counts the different lines that it passes for the first time."""

    process: Any
    url: str
    _point: Any
    _passed: Any

    def arm(self, point: int) -> None:
        """Lets it die at the `point`-th different line from now on."""
        self._passed.value = 0
        self._point.value = point

    def passed(self) -> int:
        """How many different lines it has passed since it was armed."""
        return int(self._passed.value)

    def is_dead(self) -> bool:
        """Whether SIGKILL has ended it."""
        self.process.join(DEADLINE_S)
        return bool(self.process.exitcode == -signal.SIGKILL)

    def kill(self) -> None:
        """Ends it with SIGKILL now."""
        self.process.kill()
        self.process.join()


@contextmanager
def mortal(folder: Path, settings: dict[str, Any]) -> Iterator[Mortal]:
    """A service of these settings on a free port; its stderr goes to a file in `folder`; killed with the context."""
    ours, theirs = _forks.Pipe()
    point, passed = _forks.RawValue("q", NEVER), _forks.RawValue("q", 0)
    process = _forks.Process(target=_serve, args=(str(folder), settings, theirs, point, passed), daemon=True)
    process.start()
    theirs.close()
    try:
        try:
            assert ours.poll(DEADLINE_S), "the service did not start in time"
            url = ours.recv()
        except EOFError:
            log = (folder / "mortal.log").read_text(errors="replace")[-3000:]
            raise AssertionError(f"the service did not start:\n{log}") from None
        yield Mortal(process=process, url=url, _point=point, _passed=passed)
    finally:
        process.kill()
        process.join()


def _serve(folder: str, settings: dict[str, Any], told: Connection, point: Any, passed: Any) -> None:
    from gradassay.api.judging.assays import Assays
    from gradassay.api.operations.serving import serve
    from gradassay.api.settings import ServiceSettings

    # What a dead process had claimed is free again once its lease is over: tests have no half a minute for that.
    Assays.__init__.__kwdefaults__["lease_s"] = LEASE_S
    log = os.open(f"{folder}/mortal.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(log, 1)
    os.dup2(log, 2)
    watch = _Watch(point, passed)
    threading.settrace(watch)
    sys.settrace(watch)
    serve(ServiceSettings(port=0, **settings), lambda serving: told.send(serving.url))


class _Watch:
    def __init__(self, point: Any, passed: Any) -> None:
        self._point, self._passed = point, passed
        self._seen: set[tuple[str, int]] = set()
        self._watched: dict[str, bool] = {}

    def __call__(self, frame: FrameType, event: str, argument: object) -> Any:
        name = frame.f_code.co_filename
        if name not in self._watched:
            self._watched[name] = any(part in name for part in WATCHED)
        return self._line if self._watched[name] else None

    def _line(self, frame: FrameType, event: str, argument: object) -> Any:
        if event == "line" and self._point.value != NEVER:
            place = (frame.f_code.co_filename, frame.f_lineno)
            if place not in self._seen:
                self._seen.add(place)
                self._passed.value = len(self._seen)
                if len(self._seen) == self._point.value:
                    os.kill(os.getpid(), signal.SIGKILL)
        return self._line
