"""A fork server: imports torch once, then forks the ranks of cells on request.

Started as `python -m gradassay.harness.launch.server DESCRIPTOR [MODULE ...]` with one end of a socket pair as file
descriptor. It starts no thread and touches neither an accelerator nor a process group, so that its children may. It
ends, with everything that it forked, when the other end of the socket is closed.
"""

from __future__ import annotations

import os
import selectors
import signal
import socket
import sys
import time
from collections.abc import Sequence
from math import inf

from gradassay.harness.launch.group import RankGroup
from gradassay.harness.launch.outcome import Failure
from gradassay.harness.launch.preload import preload
from gradassay.harness.launch.process import adopt_orphans, thread_count
from gradassay.harness.launch.protocol import Begun, Channel, Ended, Ready, Start


class Server:
    """Answers one pool over `channel` until that hangs up."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._groups: dict[int, RankGroup] = {}
        adopt_orphans()
        self._wake, wake = os.pipe()
        os.set_blocking(self._wake, False)
        os.set_blocking(wake, False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
        os.register_at_fork(after_in_child=channel.socket.close)

    def serve(self) -> None:
        """Runs cells until the pool hangs up, then clears all of them away."""
        self._channel.send(Ready(pid=os.getpid(), threads=thread_count()))
        with selectors.DefaultSelector() as selector:
            selector.register(self._channel.socket, selectors.EVENT_READ)
            selector.register(self._wake, selectors.EVENT_READ)
            while self._channel.open:
                due = min((group.act_s for group in self._groups.values()), default=inf)
                pause = None if due == inf else max(0.0, due - time.monotonic())
                ready = {key.fileobj for key, _ in selector.select(pause)}
                if self._wake in ready:
                    os.read(self._wake, 4096)
                self._reap()
                if self._channel.socket in ready:
                    for message in self._channel.receive():
                        assert isinstance(message, Start)
                        self._begin(message)
                for group in list(self._groups.values()):
                    if group.act_s <= time.monotonic():
                        group.act()
        for group in self._groups.values():
            group.end()

    def _begin(self, start: Start) -> None:
        try:
            group = RankGroup(start)
        except (OSError, RuntimeError) as error:
            self._channel.send(Ended(id=start.id, seconds=0.0, failure=Failure(rank=None, reason=str(error))))
            return
        self._groups[start.id] = group
        self._channel.send(Begun(id=start.id, group=group.keeper))

    def _reap(self) -> None:
        by_pid = {pid: group for group in self._groups.values() for pid in group.running}
        for pid, group in by_pid.items():
            found, status = os.waitpid(pid, os.WNOHANG)
            if found:
                group.reaped(pid, os.waitstatus_to_exitcode(status))
        for identity, group in list(self._groups.items()):
            if not group.running:
                del self._groups[identity]
                self._channel.send(group.end())


def main(arguments: Sequence[str]) -> None:
    """Imports what ranks need, then serves the socket whose descriptor is the first argument."""
    preload(arguments[1:])
    Server(Channel(socket=socket.socket(fileno=int(arguments[0])))).serve()


if __name__ == "__main__":
    main(sys.argv[1:])
