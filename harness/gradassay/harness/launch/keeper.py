"""The rendezvous of one cell: a process that hosts the store and leads the ranks' process group.

The store's port is bound by the kernel's choice before any rank exists and stays bound until the last is gone, so two
cells can never meet at one port. The ranks find it as under torchrun (TORCHELASTIC_USE_AGENT_STORE): all of them are
clients, and the death of rank 0 does not take the store away from the others.
"""

from __future__ import annotations

import os
import signal
from typing import NoReturn

from gradassay.harness.launch.process import die_with, join_group

HOST = "127.0.0.1"


def fork_keeper() -> tuple[int, int]:
    """(process id, port) of a new keeper; its process id is the id of a process group of its own.

    Raises RuntimeError where the store could not be opened.
    """
    server = os.getpid()
    receive, send = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(receive)
        _keep(server, send)
    os.close(send)
    join_group(pid, pid)
    with os.fdopen(receive, "rb") as answer:
        port = answer.read()
    if not port:
        os.waitpid(pid, 0)
        raise RuntimeError("the rendezvous store could not be opened on the loopback interface")
    return pid, int(port)


def _keep(server: int, send: int) -> NoReturn:
    try:
        die_with(server)
        join_group(0, 0)
        signal.set_wakeup_fd(-1)
        from torch.distributed import TCPStore  # type: ignore[attr-defined]

        store = TCPStore(HOST, 0, is_master=True, wait_for_workers=False)
        os.write(send, str(store.port).encode())
        os.close(send)
        while True:
            signal.pause()
    finally:
        os._exit(1)
