"""A fork server: imports torch once, then forks the ranks of cells on request.

Started as `python -m gradassay.harness.launch.server DESCRIPTOR LOCK [MODULE ...]` with one end of a socket pair as file
descriptor, or with a socket that listens and the lock that guards it. It starts no thread and touches neither an
accelerator nor a process group, so that its children may. When a pool hangs up, everything that was forked for it ends;
when the last one does, the server.
"""

from __future__ import annotations

import os
import selectors
import signal
import socket
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from math import inf
from pathlib import Path

from gradassay.harness.launch.group import RankGroup
from gradassay.harness.launch.hosting import stop_listening
from gradassay.harness.launch.outcome import Failure
from gradassay.harness.launch.preload import preload
from gradassay.harness.launch.process import adopt_orphans, thread_count
from gradassay.harness.launch.protocol import Begun, Channel, Ended, Ready, Start


@dataclass(slots=True, kw_only=True, eq=False)
class Client:
    """A pool, and what runs for it, by number."""

    channel: Channel
    groups: dict[int, RankGroup] = field(default_factory=dict)


class Server:
    """Answers pools until the last one hangs up. listener: where further ones connect. lock: held while they do."""

    def __init__(self, sockets: Sequence[socket.socket], listener: socket.socket | None, lock: Path) -> None:
        self._clients: list[Client] = []
        self._listener = listener
        self._lock = lock
        adopt_orphans()
        self._wake, wake = os.pipe()
        os.set_blocking(self._wake, False)
        os.set_blocking(wake, False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
        os.register_at_fork(after_in_child=self._close_sockets)
        for accepted in sockets:
            self._welcome(accepted)

    def serve(self) -> None:
        """Runs cells until every pool has hung up, then clears all of them away."""
        while self._goes_on():
            due = min((group.act_s for client in self._clients for group in client.groups.values()), default=inf)
            pause = None if due == inf else max(0.0, due - time.monotonic())
            ready = self._wait(pause)
            if self._wake in ready:
                os.read(self._wake, 4096)
            if self._listener in ready and self._listener is not None:
                self._welcome(self._listener.accept()[0])
            self._reap()
            for client in [client for client in self._clients if client.channel.socket in ready]:
                for message in client.channel.receive():
                    assert isinstance(message, Start)
                    self._begin(client, message)
                if not client.channel.open:
                    self._part_with(client)
            for client in self._clients:
                for group in client.groups.values():
                    if group.act_s <= time.monotonic():
                        group.act()

    def _goes_on(self) -> bool:
        if not self._clients and self._listener is not None:
            for accepted in stop_listening(self._listener, self._lock):
                self._welcome(accepted)
        return bool(self._clients)

    def _wait(self, pause_s: float | None) -> set[object]:
        with selectors.DefaultSelector() as selector:
            selector.register(self._wake, selectors.EVENT_READ)
            if self._listener is not None:
                selector.register(self._listener, selectors.EVENT_READ)
            for client in self._clients:
                selector.register(client.channel.socket, selectors.EVENT_READ)
            return {key.fileobj for key, _ in selector.select(pause_s)}

    def _welcome(self, accepted: socket.socket) -> None:
        client = Client(channel=Channel(socket=accepted))
        self._clients.append(client)
        client.channel.send(Ready(pid=os.getpid(), threads=thread_count()))

    def _part_with(self, client: Client) -> None:
        for group in client.groups.values():
            group.end()
        client.channel.socket.close()
        self._clients.remove(client)

    def _begin(self, client: Client, start: Start) -> None:
        try:
            group = RankGroup(start)
        except (OSError, RuntimeError) as error:
            client.channel.send(Ended(id=start.id, seconds=0.0, failure=Failure(rank=None, reason=str(error))))
            return
        client.groups[start.id] = group
        client.channel.send(Begun(id=start.id, group=group.keeper))

    def _reap(self) -> None:
        groups = [group for client in self._clients for group in client.groups.values()]
        by_pid = {pid: group for group in groups for pid in group.running}
        for pid, group in by_pid.items():
            found, status = os.waitpid(pid, os.WNOHANG)
            if found:
                group.reaped(pid, os.waitstatus_to_exitcode(status))
        for client in self._clients:
            for identity, group in list(client.groups.items()):
                if not group.running:
                    del client.groups[identity]
                    client.channel.send(group.end())

    def _close_sockets(self) -> None:
        for client in self._clients:
            client.channel.socket.close()
        if self._listener is not None:
            self._listener.close()


def main(arguments: Sequence[str]) -> None:
    """Imports what ranks need, then serves the socket whose descriptor is the first argument."""
    descriptor, lock, *modules = arguments
    preload(modules)
    end = socket.socket(fileno=int(descriptor))
    if lock:
        Server([], end, Path(lock)).serve()
    else:
        Server([end], None, Path()).serve()


if __name__ == "__main__":
    main(sys.argv[1:])
