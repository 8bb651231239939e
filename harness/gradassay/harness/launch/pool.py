"""Warm fork servers, one an environment, and the cells that run on them."""

from __future__ import annotations

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
from gradassay.harness.launch.connection import Connection, Running
from gradassay.harness.launch.hosting import Surroundings, own_host, shared_host
from gradassay.harness.launch.notice import Notice
from gradassay.harness.launch.outcome import Failure, Outcome, Task
from gradassay.harness.launch.protocol import Ended
from gradassay.harness.launch.slots import OwnSlots, Slots, Taken, machine_slots

_NOTHING = Taken(release=lambda: None)


def _unheard(text: str) -> None:  # noqa: ARG001
    return


class Pool:
    """Runs cells on ranks of this machine; a context manager, and nothing that it started outlives it.

    slots: how many ranks run at once; a cell of more ranks runs alone. A number is for this pool alone; by default all
    pools of this user's processes share the cores or GPUs of the machine, and a cell waits until it has its share.
    environments: the surroundings of a framework, by the cell's `framework`.
    say: called with a line for people where a cell waits for another process. servers: a folder; pools of all processes
    that name it share fork servers, so that each imports torch and a framework once for all of them.
    """

    def __init__(
        self,
        *,
        environments: Callable[[str], Surroundings] = environment,
        slots: int | Slots | None = None,
        say: Callable[[str], None] = _unheard,
        servers: Path | None = None,
    ) -> None:
        self._environments = environments
        self._slots: Slots = OwnSlots(slots) if isinstance(slots, int) else slots or machine_slots()
        self._notice = Notice(self._slots, say)
        self._shared = servers
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
        the cells that run are taken down and leave nothing behind. Cells hold their slots until the caller asks for the
        next outcome: what it does meanwhile must not wait for cells of another pool.
        """
        waiting = deque(tasks)
        try:
            while waiting or self._busy():
                asked = True
                while asked and (task := self._next(waiting)) is not None:
                    asked = self._begin(task)
                    if asked:
                        waiting.remove(task)
                for running, ended in self._ended(self._slots.poll_s if waiting else inf):
                    yield _outcome(running, ended)
        finally:
            self._slots.leave()
            self._abandon()

    def _server(self, framework: str) -> Connection:
        server = self._servers.get(framework)
        if server is not None and server.is_spent:
            server.close()
            server = None
        if server is None:
            surroundings = self._environments(framework)
            if self._shared is None:
                host = own_host(surroundings, self._logs / f"server{next(self._numbers)}.log")
            else:
                host = shared_host(surroundings, self._shared)
            server = self._servers[framework] = Connection(host)
        return server

    def _busy(self) -> bool:
        return any(server.running for server in self._servers.values())

    def _next(self, waiting: Iterable[Task]) -> Task | None:
        """The first task whose server can fork ranks, or never will: no slot is kept idle by imports.

        Servers of tasks before it start, one a slot at a time.
        """
        starting: set[str] = set()
        for task in waiting:
            framework = task.cell.framework
            if framework in starting:
                continue
            server = self._server(framework)
            if server.is_ready or server.is_broken:
                return task
            starting.add(framework)
            if len(starting) == self._slots.count:
                return None
        return None

    def _begin(self, task: Task) -> bool:
        """Whether the task has begun; False where it must wait for slots."""
        server = self._server(task.cell.framework)
        taken = self._slots.take(task.cell.layout.world) if server.is_ready else _NOTHING
        if taken is None:
            self._notice.waits(task.cell)
            return False
        self._notice.over()
        try:
            task.out.parent.mkdir(parents=True, exist_ok=True)
            folder = Path(tempfile.mkdtemp(dir=task.out.parent, prefix=".cell-"))
        except OSError:
            taken.release()
            raise
        running = Running(task=task, folder=folder, out=folder / task.out.name, taken=taken)
        server.start(next(self._numbers), running)
        return True

    def _ended(self, patience_s: float) -> list[tuple[Running, Ended]]:
        """The cells that have ended, when some have, or when it is time to look for slots again."""
        heard = [server for server in self._servers.values() if server.running or server.is_starting]
        due_s = min([time.monotonic() + patience_s, *(server.due_s for server in heard)])
        with selectors.DefaultSelector() as selector:
            for server in heard:
                selector.register(server.channel.socket, selectors.EVENT_READ, server)
            ready = selector.select(None if due_s == inf else max(0.0, due_s - time.monotonic()))
        for server in heard:
            if server.due_s <= time.monotonic():
                server.kill()
        ended = [cell for key, _ in ready for cell in key.data.receive()]
        for running, _ in ended:
            running.taken.release()
        return ended

    def _abandon(self) -> None:
        for framework, server in list(self._servers.items()):
            abandoned = list(server.running.values())
            if abandoned:
                server.close()
                del self._servers[framework]
            for running in abandoned:
                running.taken.release()
                shutil.rmtree(running.folder)


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
