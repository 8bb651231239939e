"""Rank functions that forked ranks import by name: healthy ones, and each way to die."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

from gradassay.goldens.errors import UsageError
from gradassay.harness.cell import Cell


def _rank() -> int:
    return int(os.environ["RANK"])


def reduces(cell: Cell, out: Path) -> None:
    """Sums the ranks over gloo; rank 0 writes what it saw."""
    import torch
    import torch.distributed as dist

    dist.init_process_group("gloo")
    total = torch.tensor([float(_rank())])
    dist.all_reduce(total)
    if _rank() == 0:
        names = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_PORT")
        seen = {name: os.environ[name] for name in names}
        out.write_text(
            json.dumps({"total": total.item(), "threads": torch.get_num_threads(), "cell": str(cell), **seen})
        )
    dist.destroy_process_group()


def _meet_and_wait(ranks_that_leave: tuple[int, ...]) -> None:
    """All ranks meet; those that do not leave then wait in a collective that never completes."""
    import torch
    import torch.distributed as dist

    dist.init_process_group("gloo")
    dist.barrier()
    print(f"rank {_rank()} has met the others", flush=True)
    _leave_pids()
    if _rank() not in ranks_that_leave:
        dist.all_reduce(torch.zeros(1))


def _leave_pids() -> None:
    folder = os.environ.get("PIDS_FOLDER")
    if folder:
        Path(folder, str(os.getpid())).touch()


def raises(cell: Cell, out: Path) -> None:
    """Rank 1 raises while the others wait for it."""
    _meet_and_wait((1,))
    raise ValueError("the wrong gradient on purpose")


def refuses(cell: Cell, out: Path) -> None:
    """Rank 1 finds only on the rank that the cell makes no sense, while the others wait for it."""
    _meet_and_wait((1,))
    raise UsageError("this release has no option 'banana'", hint="leave banana out")


def exits(cell: Cell, out: Path) -> None:
    """Rank 2 leaves with exit code 3 and no exception."""
    _meet_and_wait((2,))
    os._exit(3)


def exits_cleanly(cell: Cell, out: Path) -> None:
    """Rank 1 leaves with exit code 0 before its work is done."""
    _meet_and_wait((1,))
    os._exit(0)


def is_killed(cell: Cell, out: Path) -> None:
    """Rank 1 dies of SIGKILL."""
    _meet_and_wait((1,))
    os.kill(os.getpid(), signal.SIGKILL)


def crashes(cell: Cell, out: Path) -> None:
    """Rank 0 dies in native code."""
    import ctypes

    _meet_and_wait((0,))
    ctypes.string_at(0)


def hangs(cell: Cell, out: Path) -> None:
    """Rank 1 never joins the collective that the others wait in, and has a child of its own."""
    _meet_and_wait((1,))
    child = subprocess.Popen([sys.executable, "-c", "import threading; threading.Event().wait()"])
    folder = os.environ.get("PIDS_FOLDER")
    if folder:
        Path(folder, str(child.pid)).touch()
    threading.Event().wait()


def ignores_sigterm(cell: Cell, out: Path) -> None:
    """Every rank hangs and does not heed SIGTERM."""
    import faulthandler

    faulthandler.unregister(signal.SIGTERM)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    _leave_pids()
    while True:
        signal.pause()


def writes_nothing(cell: Cell, out: Path) -> None:
    """Returns without a file."""


def writes_half(cell: Cell, out: Path) -> None:
    """Rank 0 writes the file, and rank 1 fails."""
    if _rank() == 0:
        out.write_text("{}")
    else:
        raise RuntimeError("after rank 0 had written")


def shows_descriptors(cell: Cell, out: Path) -> None:
    """Writes the files that the rank and the server that forked it have open, and which GPUs the rank sees."""
    seen = {
        whose: [str(path.readlink()) for path in Path(f"/proc/{pid}/fd").iterdir() if path.is_symlink()]
        for whose, pid in (("rank", os.getpid()), ("server", os.getppid()))
    }
    if _rank() == 0:
        out.write_text(json.dumps({"gpus": os.environ.get("CUDA_VISIBLE_DEVICES"), **seen}))


def meets_other_cells(cell: Cell, out: Path) -> None:
    """Leaves its port beside the file, and waits there for three other cells before it meets its own ranks."""
    import time

    ports = out.parent.parent / "ports"
    ports.mkdir(exist_ok=True)
    (ports / f"{out.name}.{_rank()}").write_text(os.environ["MASTER_PORT"])
    while len(list(ports.iterdir())) < 4 * cell.layout.world:
        time.sleep(0.01)
    reduces(cell, out)


def prints_surroundings(cell: Cell, out: Path) -> None:
    """Writes a variable and a module's presence, for environments."""
    if _rank() == 0:
        out.write_text(json.dumps({"colour": os.environ.get("COLOUR"), "preloaded": "wave" in sys.modules}))
