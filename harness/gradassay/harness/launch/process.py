"""Process groups whose members cannot outlive the process that forked them."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from pathlib import Path

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_LIBC = ctypes.CDLL(None, use_errno=True)


def die_with(parent: int) -> None:
    """Makes the kernel kill this process when `parent`, which forked it, ends; on Linux only."""
    if sys.platform != "linux":
        return
    _LIBC.prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)


def adopt_orphans() -> None:
    """Makes this process the parent of its children's children when their own parent ends; on Linux only."""
    if sys.platform == "linux":
        _LIBC.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def join_group(pid: int, group: int) -> None:
    """Puts the process into the group; called on both sides of a fork, whichever comes first."""
    try:
        os.setpgid(pid, group)
    except (PermissionError, ProcessLookupError):
        assert pid != 0, "a process may always move itself"


def end_group(group: int) -> None:
    """Kills every member and waits until those that are children of this process are gone."""
    signal_group(group, signal.SIGKILL)
    try:
        while True:
            os.waitpid(-group, 0)
    except ChildProcessError:
        return


def signal_group(group: int, number: signal.Signals) -> None:
    """Sends the signal to every member; an empty group is no error."""
    try:
        os.killpg(group, number)
    except ProcessLookupError:
        return


def thread_count() -> int:
    """Threads of this process, those of native libraries included; 1 where the kernel does not tell."""
    tasks = Path("/proc/self/task")
    return len(list(tasks.iterdir())) if tasks.is_dir() else 1
