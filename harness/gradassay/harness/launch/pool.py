"""Warm fork servers, one an environment, and the cells that run on them."""

from __future__ import annotations

import os
import selectors
import shutil
import tempfile
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from math import inf
from pathlib import Path
from types import TracebackType

from gradassay.harness.environments import environment
from gradassay.harness.launch.connection import Connection, Running, Surroundings
from gradassay.harness.launch.outcome import Failure, Outcome, Task
from gradassay.harness.launch.protocol import Ended


class Pool:
    """Runs cells on ranks of this machine; a context manager, and nothing that it started outlives it.

    slots: how many ranks run at once; a cell of more ranks runs alone. By default the processor cores at hand.
    environments: the surroundings of a framework, by the cell's `framework`.
    """

    def __init__(self, *, environments: Callable[[str], Surroundings] = environment, slots: int | None = None) -> None:
        self._environments = environments
        self._slots = slots or len(os.sched_getaffinity(0))
        self._servers: dict[str, Connection] = {}
        self._numbers = iter(range(1, 1 << 62))
        self._logs = Path(tempfile.mkdtemp(prefix="gradassay-pool-"))

    def __enter__(self) -> Pool:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Ends all servers and the ranks that they forked."""
        self._abandon()
        for server in self._servers.values():
            server.close()
        self._servers.clear()
        shutil.rmtree(self._logs, ignore_errors=True)

    def warm(self, *frameworks: str) -> None:
        """Starts the servers of these frameworks ("" is this environment) without waiting for them."""
        for framework in frameworks:
            self._server(framework)

    def run(self, tasks: Iterable[Task]) -> Iterator[Outcome]:
        """The outcome of every task, in the order in which they end.

        A task's file is there only if all of its ranks succeeded. Where the caller stops early (an exception, Ctrl-C),
        the cells that run are taken down and leave nothing behind.
        """
        waiting = deque(tasks)
        try:
            while waiting or self._busy():
                while waiting and self._fits(waiting[0].cell.layout.world):
                    self._begin(waiting.popleft())
                for running, ended in self._ended():
                    yield _outcome(running, ended)
        finally:
            self._abandon()

    def _server(self, framework: str) -> Connection:
        server = self._servers.get(framework)
        if server is not None and not server.is_alive and not server.running:
            server.close()
            server = None
        if server is None:
            log = self._logs / f"server{next(self._numbers)}.log"
            server = self._servers[framework] = Connection(self._environments(framework), log)
        return server

    def _busy(self) -> int:
        cells = (running for server in self._servers.values() for running in server.running.values())
        return sum(running.task.cell.layout.world for running in cells)

    def _fits(self, world: int) -> bool:
        busy = self._busy()
        return not busy or busy + world <= self._slots

    def _begin(self, task: Task) -> None:
        server = self._server(task.cell.framework)
        task.out.parent.mkdir(parents=True, exist_ok=True)
        folder = Path(tempfile.mkdtemp(dir=task.out.parent, prefix=".cell-"))
        running = Running(task=task, folder=folder, out=folder / task.out.name)
        server.start(next(self._numbers), running)

    def _ended(self) -> list[tuple[Running, Ended]]:
        busy = [server for server in self._servers.values() if server.running]
        due_s = min(server.due_s for server in busy)
        with selectors.DefaultSelector() as selector:
            for server in busy:
                selector.register(server.channel.socket, selectors.EVENT_READ, server)
            ready = selector.select(None if due_s == inf else max(0.0, due_s - time.monotonic()))
        for server in busy:
            if server.due_s <= time.monotonic():
                server.kill()
        return [cell for key, _ in ready for cell in key.data.receive()]

    def _abandon(self) -> None:
        for framework, server in list(self._servers.items()):
            folders = [running.folder for running in server.running.values()]
            if folders:
                server.close()
                del self._servers[framework]
            for folder in folders:
                shutil.rmtree(folder)


def _outcome(running: Running, ended: Ended) -> Outcome:
    cell, failure = running.task.cell, ended.failure
    if failure is None and running.out.exists():
        running.out.replace(running.task.out)
    elif failure is None:
        failure = Failure(rank=0, reason="every rank returned, but none wrote the file")
    shutil.rmtree(running.folder)
    if failure is not None:
        return Outcome(cell=cell, seconds=ended.seconds, failure=failure)
    return Outcome(cell=cell, seconds=ended.seconds, path=running.task.out)
