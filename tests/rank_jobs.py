"""Runs functions on real ranks over gloo, many one after the other on the same processes, for tests of the harness."""

from __future__ import annotations

import multiprocessing
import os
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from multiprocessing import forkserver
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any
from unittest import mock

from torch.distributed import TCPStore

_PRELOADED = [
    "torch",
    "torch._dynamo",
    "torch.distributed.fsdp",
    "torch.distributed.optim",
    "gradassay.goldens.kernel",
    "gradassay.harness.worker",
]
_ONE_THREAD = {"OMP_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1"}
DEADLINE_S = 200.0
GRACE_S = 20.0


@dataclass(frozen=True, kw_only=True)
class Job:
    """A module-level function for every rank, and its arguments."""

    function: Callable[..., Any]
    arguments: tuple[Any, ...] = field(default=())


@dataclass(frozen=True, kw_only=True)
class Failed:
    """What a rank raised instead of returning: the error's class name, its message and traceback."""

    kind: str
    message: str
    traceback: str


def run_jobs(world: int, jobs: Sequence[Job]) -> list[list[Any]]:
    """[job][rank]: what each rank returned, or `Failed`. A job that fails on one rank must fail on all of them."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(_PRELOADED)
    with mock.patch.dict(os.environ, _ONE_THREAD):
        forkserver.ensure_running()
    # The parent holds the rendezvous of every job, so that no port is chosen before somebody listens on it.
    stores = [TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False) for _ in jobs]
    ports = [store.port for store in stores]
    ends, processes = [], []
    for rank in range(world):
        mine, theirs = context.Pipe(duplex=False)
        process = context.Process(target=_serve, args=(rank, world, list(jobs), ports, theirs), daemon=True)
        process.start()
        theirs.close()
        ends.append(mine)
        processes.append(process)
    try:
        return [_receive(ends) for _ in jobs]
    finally:
        for process in processes:
            process.join(timeout=5)
            if process.is_alive():
                process.kill()
                process.join()


def _receive(ends: list[Connection]) -> list[Any]:
    """What every rank returned for one job. Raises where a rank is silent, with the failure of one that is not."""
    found: dict[int, Any] = {}
    while len(found) < len(ends):
        waiting = {ends[rank]: rank for rank in range(len(ends)) if rank not in found}
        failures = [result for result in found.values() if isinstance(result, Failed)]
        ready = wait(list(waiting), timeout=GRACE_S if failures else DEADLINE_S)
        if not ready:
            reason = failures[0].traceback if failures else f"nothing came within {DEADLINE_S} s"
            raise RuntimeError(f"ranks {sorted(waiting.values())} are silent: {reason}")
        found |= {waiting[end]: end.recv() for end in ready}
    return [found[rank] for rank in range(len(ends))]


def _serve(rank: int, world: int, jobs: list[Job], ports: list[int], results: Connection) -> None:
    os.environ.update(
        RANK=str(rank),
        LOCAL_RANK=str(rank),
        WORLD_SIZE=str(world),
        LOCAL_WORLD_SIZE=str(world),
        MASTER_ADDR="127.0.0.1",
        TORCHELASTIC_USE_AGENT_STORE="True",
        GLOO_SOCKET_IFNAME="lo",
        **_ONE_THREAD,
    )
    for job, port in zip(jobs, ports, strict=True):
        os.environ["MASTER_PORT"] = str(port)
        try:
            results.send(job.function(*job.arguments))
        except Exception as error:
            results.send(Failed(kind=type(error).__name__, message=str(error), traceback=traceback.format_exc()))


def record_cell(cell: Any, out: Path, scenario: Callable[[], Any] | None = None) -> None:
    """Runs a cell as the worker does. scenario: a module-level function that makes the interference on the rank."""
    from gradassay.harness.worker import run_rank

    run_rank(cell, out, interference=scenario() if scenario else None)
