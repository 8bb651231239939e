"""Cases of a benchmark that are each run by ranks of torchrun, on the cores of this machine."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from typing import Any


def is_rank() -> bool:
    """Whether this process is one that `launch` has started."""
    return "RANK" in os.environ


def launch(module: str, ranks: int, arguments: Sequence[str]) -> dict[str, Any]:
    """What rank 0 of a module prints last, as JSON. Ranks share the cores, a thread for each that they have."""
    threads = max(1, len(os.sched_getaffinity(0)) // ranks)
    launcher = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(ranks), "-m", module]
    done = subprocess.run(
        [sys.executable, *launcher, *arguments],
        env=os.environ | {"OMP_NUM_THREADS": str(threads)},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    case: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return case
