"""The ranks of one running cell, as their fork server sees them."""

from __future__ import annotations

import os
import signal
import time
from math import inf
from pathlib import Path

from gradassay.harness.launch.blame import Death, first_failure, is_done, late_failure
from gradassay.harness.launch.keeper import fork_keeper
from gradassay.harness.launch.outcome import Failure
from gradassay.harness.launch.process import end_group, join_group
from gradassay.harness.launch.protocol import Ended, Start
from gradassay.harness.launch.rank import become_rank

SETTLE_S = 1.0
GRACE_S = 2.0


class RankGroup:
    """Forks the ranks of a cell, and takes all of them down where one fails or the deadline passes.

    After the first failure the others have SETTLE_S to report theirs (the one that failed first may be slower to say
    so), then they are told to end (SIGTERM: they leave their stacks), and after GRACE_S they are killed, with all that
    they started.

    running: ranks by process id. act_s: when `act` is due, on the monotonic clock. keeper: the process group's leader.
    """

    def __init__(self, start: Start) -> None:
        self.start = start
        self.running: dict[int, int] = {}
        self._folder = Path(start.folder)
        self._begun_s = time.monotonic()
        self.act_s = self._begun_s + start.deadline_s
        self._deaths: list[Death] = []
        self._told_to_end = False
        self._unfinished: list[int] = []
        self.keeper, port = fork_keeper()
        try:
            self._fork(port)
        except OSError:
            end_group(self.keeper)
            raise

    def _fork(self, port: int) -> None:
        server = os.getpid()
        for rank in range(self.start.cell.layout.world):
            pid = os.fork()
            if pid == 0:
                become_rank(self.start, rank, server=server, group=self.keeper, port=port)
            join_group(pid, self.keeper)
            self.running[pid] = rank

    def reaped(self, pid: int, code: int) -> None:
        """Takes note that a process of this cell ended with an exit code, or minus a signal."""
        rank = self.running.pop(pid)
        if self._told_to_end:
            return
        now = time.monotonic()
        self._deaths.append(Death(rank=rank, code=code, at_s=now))
        if code != 0 or not is_done(self._folder, rank):
            self.act_s = min(self.act_s, now + SETTLE_S)

    def act(self) -> None:
        """Tells the ranks to end, or kills them where they have been told."""
        number = signal.SIGKILL if self._told_to_end else signal.SIGTERM
        if not self._told_to_end:
            self._unfinished = sorted(self.running.values())
        self.act_s = inf if self._told_to_end else time.monotonic() + GRACE_S
        self._told_to_end = True
        for pid in self.running:
            os.kill(pid, number)

    def end(self) -> Ended:
        """Clears away whatever is left of the cell; called when no rank is running, or to stop it at once."""
        end_group(self.keeper)
        seconds = time.monotonic() - self._begun_s
        return Ended(id=self.start.id, seconds=seconds, failure=self._failure())

    def _failure(self) -> Failure | None:
        failure = first_failure(self._folder, self._deaths)
        if failure is None and self._told_to_end:
            return late_failure(self._folder, self._unfinished, self.start.deadline_s)
        return failure
