"""One fork server, as its pool sees it."""

from __future__ import annotations

import signal
import time
from dataclasses import dataclass
from math import inf
from pathlib import Path

from gradassay.harness.launch.hosting import Host
from gradassay.harness.launch.outcome import Failure, Task
from gradassay.harness.launch.process import signal_group
from gradassay.harness.launch.protocol import Begun, Channel, Ended, Ready, Start
from gradassay.harness.launch.slots import Taken

START_S = 300.0
MARGIN_S = 30.0
_LOG_BYTES = 8192


@dataclass(frozen=True, slots=True, kw_only=True)
class Running:
    """A cell whose ranks a server was asked to fork, in a folder of its own, and the slots that they take."""

    task: Task
    folder: Path
    out: Path
    taken: Taken


class Connection:
    """A fork server that runs, and the cells that one pool asked it to run.

    running: cells by number. threads: of the server when it had imported everything, None before that.
    """

    def __init__(self, host: Host) -> None:
        self.host = host
        self.channel = Channel(socket=host.socket)
        self.running: dict[int, Running] = {}
        self.threads: int | None = None
        self._groups: dict[int, int] = {}
        self._limits: dict[int, float] = {}
        self._ready_by_s = time.monotonic() + START_S
        self._told = False

    @property
    def is_starting(self) -> bool:
        """Whether the server still imports what ranks need, for all that is known."""
        return self.threads is None and self.channel.open

    @property
    def is_ready(self) -> bool:
        """Whether the server can fork ranks."""
        return self.threads is not None and self.channel.is_connected

    @property
    def is_broken(self) -> bool:
        """Whether the server ended before it was ready, and no cell has been told; the next to start is."""
        return self.threads is None and not self.channel.open and not self.running and not self._told

    @property
    def is_spent(self) -> bool:
        """Whether the server is gone, and every cell knows that is to know: another one may take its place."""
        return not self.channel.is_connected and not self.running and (self.threads is not None or self._told)

    @property
    def due_s(self) -> float:
        """When the server should have answered at the latest, on the monotonic clock."""
        return min([*self._limits.values(), *([self._ready_by_s] if self.is_starting else [])], default=inf)

    def start(self, number: int, running: Running) -> None:
        """Asks the server to run a cell; where it is gone, a failure comes out of `receive`."""
        self.running[number] = running
        self._limits[number] = time.monotonic() + running.task.deadline_s + MARGIN_S
        self.channel.send(
            Start(
                id=number,
                cell=running.task.cell,
                function=running.task.function,
                folder=str(running.folder),
                out=str(running.out),
                deadline_s=running.task.deadline_s,
                variables=dict(running.taken.variables),
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
            self._told = bool(ended)
            self.running.clear()
        return ended

    def close(self) -> None:
        """Ends every rank that the server forked for this pool and, unless other pools share it, the server."""
        if self.is_starting and not self.host.shared:
            self.host.kill()
        self.channel.hang_up(0.0 if self.is_starting else MARGIN_S)
        self._bury()
        self.running.clear()

    def kill(self) -> None:
        """Ends a server that no longer answers; its cells come out of `receive` as failures."""
        self.host.kill()

    def _bury(self) -> Failure:
        for group in self._groups.values():
            signal_group(group, signal.SIGKILL)
        self._groups.clear()
        self._limits.clear()
        when = "before it was ready" if self.threads is None else "while it ran"
        return Failure(
            rank=None,
            reason=f"the server that forks the ranks ended {when} ({self.host.ended(MARGIN_S)})",
            traceback=self.host.tail(_LOG_BYTES),
        )
