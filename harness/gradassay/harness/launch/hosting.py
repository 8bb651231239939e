"""Starts fork servers: one for a pool alone, or one for all pools that name the same folder."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Protocol

from gradassay.goldens.store.lock import locked
from gradassay.harness.launch.slots import machine_folder

_RANKS = {
    "OMP_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "NUMBA_NUM_THREADS": "1",
    "GLOO_SOCKET_IFNAME": "lo",
    "PYTHONUNBUFFERED": "1",
    "PYTORCH_NVML_BASED_CUDA_CHECK": "1",
}
_BACKLOG = 128
# Shared servers that outlive the pool that started them; a Popen that is dropped warns of a process that still runs.
_GOING_ON: list[subprocess.Popen[bytes]] = []


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
class Host:
    """A fork server's process. log: what it prints. process: None where another process started it. shared: by pools."""

    socket: socket.socket
    log: Path
    pid: int
    process: subprocess.Popen[bytes] | None = None
    shared: bool = False

    def kill(self) -> None:
        """Ends a server that does not answer."""
        with suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)

    def ended(self, patience_s: float) -> str:
        """How the server ended, which has hung up on this pool; one of this pool alone is killed where it does not."""
        if self.process is None:
            return "another process had started it"
        try:
            code = self.process.wait(timeout=0 if self.shared else patience_s)
        except subprocess.TimeoutExpired:
            if self.shared:
                _GOING_ON.append(self.process)
                return "other processes share it"
            self.process.kill()
            code = self.process.wait()
        return f"killed by {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"

    def tail(self, size: int) -> str:
        """The end of what the server printed."""
        return self.log.read_bytes()[-size:].decode(errors="replace") if self.log.exists() else ""


def own_host(surroundings: Surroundings, log: Path) -> Host:
    """A server for one pool."""
    ours, theirs = socket.socketpair()
    with theirs:
        process = _spawn(surroundings, log, theirs)
    return Host(socket=ours, log=log, pid=process.pid, process=process)


def shared_host(surroundings: Surroundings, folder: Path) -> Host:
    """The server that pools in these surroundings share by naming this folder; started where it does not run.

    It ends when no pool is connected any more, whoever started it.
    """
    facts = (
        os.fspath(folder.absolute()),
        surroundings.paths,
        sorted(surroundings.variables.items()),
        surroundings.preload,
    )
    key = sha256(repr(facts).encode("utf-8", "surrogateescape")).hexdigest()[:16]
    # Not in `folder`: the kernel takes addresses of about a hundred bytes.
    address = machine_folder() / f"{key}.server"
    lock, log, pid = (folder / f"{key}.{kind}" for kind in ("lock", "log", "pid"))
    with locked(lock):
        if (there := _connected(address)) is not None:
            return Host(socket=there, log=log, pid=int(pid.read_text()), shared=True)
        address.unlink(missing_ok=True)
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(str(address))
            listener.listen(_BACKLOG)
            process = _spawn(surroundings, log, listener, lock)
        pid.write_text(str(process.pid))
        connected = _connected(address)
        assert connected is not None, "it listens since before its process began"
        return Host(socket=connected, log=log, pid=process.pid, process=process, shared=True)


def stop_listening(listener: socket.socket, lock: Path) -> list[socket.socket]:
    """Closes the listening socket of a shared server, unless pools have connected meanwhile: then returns theirs."""
    with locked(lock) if lock.parent.is_dir() else nullcontext():
        listener.setblocking(False)
        try:
            accepted, _ = listener.accept()
        except BlockingIOError:
            Path(listener.getsockname()).unlink(missing_ok=True)
            listener.close()
            return []
    accepted.setblocking(True)
    return [accepted]


def _connected(address: Path) -> socket.socket | None:
    there = socket.socket(socket.AF_UNIX)
    try:
        there.connect(str(address))
    except (FileNotFoundError, ConnectionRefusedError):
        there.close()
        return None
    return there


def _spawn(
    surroundings: Surroundings, log: Path, end: socket.socket, lock: Path | None = None
) -> subprocess.Popen[bytes]:
    path = os.pathsep.join([*map(str, surroundings.paths), *filter(None, [os.environ.get("PYTHONPATH")])])
    arguments = [str(end.fileno()), "" if lock is None else str(lock.absolute()), *surroundings.preload]
    with log.open("wb") as output:
        return subprocess.Popen(
            [sys.executable, "-m", "gradassay.harness.launch.server", *arguments],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            pass_fds=(end.fileno(),),
            env={**os.environ, **_RANKS, **surroundings.variables, "PYTHONPATH": path},
            start_new_session=True,
        )
