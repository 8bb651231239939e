"""One fork server, as its pool sees it."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import inf
from pathlib import Path
from typing import Protocol

from gradassay.harness.launch.outcome import Failure, Task
from gradassay.harness.launch.process import signal_group
from gradassay.harness.launch.protocol import Begun, Channel, Ended, Ready, Start

START_S = 300.0
MARGIN_S = 30.0
_LOG_BYTES = 8192
_RANKS = {
    "OMP_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "NUMBA_NUM_THREADS": "1",
    "GLOO_SOCKET_IFNAME": "lo",
    "PYTHONUNBUFFERED": "1",
    "PYTORCH_NVML_BASED_CUDA_CHECK": "1",
}


class Surroundings(Protocol):
    """What a fork server needs to know of the environment that a framework lives in."""

    @property
    def paths(self) -> Sequence[Path]:
        """Folders to import from before all others."""
        ...

    @property
    def variables(self) -> Mapping[str, str]:
        """Environment variables, set before the interpreter starts."""
        ...

    @property
    def preload(self) -> Sequence[str]:
        """Modules to import before the first fork."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Running:
    """A cell whose ranks a server was asked to fork, in a folder of its own."""

    task: Task
    folder: Path
    out: Path


class Connection:
    """A fork server that runs, and the cells it was asked to run; `log` takes what the server itself prints.

    running: cells by number. threads: of the server when it had imported everything, None before that.
    """

    def __init__(self, surroundings: Surroundings, log: Path) -> None:
        ours, theirs = socket.socketpair()
        path = os.pathsep.join([*map(str, surroundings.paths), *filter(None, [os.environ.get("PYTHONPATH")])])
        with theirs, log.open("wb") as output:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "gradassay.harness.launch.server", str(theirs.fileno()), *surroundings.preload],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                pass_fds=(theirs.fileno(),),
                env={**os.environ, **_RANKS, **surroundings.variables, "PYTHONPATH": path},
                start_new_session=True,
            )
        self.channel = Channel(socket=ours)
        self.running: dict[int, Running] = {}
        self.threads: int | None = None
        self._log = log
        self._groups: dict[int, int] = {}
        self._limits: dict[int, float] = {}

    @property
    def is_alive(self) -> bool:
        """Whether the server can be asked to run a cell."""
        return self.channel.open and self.process.poll() is None

    @property
    def due_s(self) -> float:
        """When the server should have answered at the latest, on the monotonic clock."""
        return min(self._limits.values(), default=inf)

    def start(self, number: int, running: Running) -> None:
        """Asks the server to run a cell."""
        self.running[number] = running
        waiting = START_S if self.threads is None else 0.0
        self._limits[number] = time.monotonic() + waiting + running.task.deadline_s + MARGIN_S
        self.channel.send(
            Start(
                id=number,
                cell=running.task.cell,
                function=running.task.function,
                folder=str(running.folder),
                out=str(running.out),
                deadline_s=running.task.deadline_s,
            )
        )

    def receive(self) -> list[tuple[Running, Ended]]:
        """The cells that have ended; all of them, as failures, where the server is gone."""
        ended: list[tuple[Running, Ended]] = []
        for message in self.channel.receive():
            match message:
                case Ready():
                    self.threads = message.threads
                case Begun():
                    self._groups[message.id] = message.group
                case Ended():
                    self._groups.pop(message.id, None)
                    self._limits.pop(message.id)
                    ended.append((self.running.pop(message.id), message))
                case Start():
                    raise AssertionError("a server starts nothing at its pool")
        if not self.channel.open:
            failure = self._bury()
            ended += [(cell, Ended(id=number, seconds=0.0, failure=failure)) for number, cell in self.running.items()]
            self.running.clear()
        return ended

    def close(self) -> None:
        """Ends the server and, with it, every rank that it forked."""
        self.channel.socket.close()
        self.channel.open = False
        self._bury()
        self.running.clear()

    def kill(self) -> None:
        """Ends a server that no longer answers; its cells come out of `receive` as failures."""
        self.process.kill()

    def _bury(self) -> Failure:
        try:
            code = self.process.wait(timeout=MARGIN_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            code = self.process.wait()
        for group in self._groups.values():
            signal_group(group, signal.SIGKILL)
        self._groups.clear()
        self._limits.clear()
        how = f"killed by {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
        when = "before it was ready" if self.threads is None else "while it ran"
        return Failure(
            rank=None,
            reason=f"the server that forks the ranks ended {when} ({how})",
            traceback=self._log.read_bytes()[-_LOG_BYTES:].decode(errors="replace"),
        )
