"""What a forked process does as one rank of a cell."""

from __future__ import annotations

import faulthandler
import importlib
import json
import os
import signal
import sys
import time
import traceback
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from gradassay.goldens.errors import MissingExtra, UsageError
from gradassay.harness.launch.keeper import HOST
from gradassay.harness.launch.process import die_with, join_group
from gradassay.harness.launch.protocol import Start


@dataclass(frozen=True, slots=True, kw_only=True)
class RankFiles:
    """Where a rank of a cell leaves its traces."""

    folder: Path
    rank: int

    @property
    def log(self) -> Path:
        """What it printed, on stdout and stderr."""
        return self.folder / f"rank{self.rank}.log"

    @property
    def stack(self) -> Path:
        """Where it stood when it was told to end, or when native code crashed."""
        return self.folder / f"rank{self.rank}.stack"

    @property
    def status(self) -> Path:
        """How its function ended: `{"raised": null}` or the exception; absent where it did not end."""
        return self.folder / f"rank{self.rank}.status.json"


def become_rank(start: Start, rank: int, *, server: int, group: int, port: int) -> NoReturn:
    """Runs the cell's function as `rank` in this freshly forked process, and ends it."""
    code = 1
    try:
        die_with(server)
        join_group(0, group)
        files = RankFiles(folder=Path(start.folder), rank=rank)
        _redirect(files)
        world = str(start.cell.layout.world)
        os.environ.update(
            start.variables,
            RANK=str(rank),
            LOCAL_RANK=str(rank),
            WORLD_SIZE=world,
            LOCAL_WORLD_SIZE=world,
            MASTER_ADDR=HOST,
            MASTER_PORT=str(port),
            TORCHELASTIC_USE_AGENT_STORE="True",
        )
        code = _call(start, files)
    finally:
        os._exit(code)


def _redirect(files: RankFiles) -> None:
    signal.set_wakeup_fd(-1)
    for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.SIG_DFL)
    log = os.open(files.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    os.dup2(log, 1)
    os.dup2(log, 2)
    os.close(log)
    stack = os.open(files.stack, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    faulthandler.enable(file=stack)
    faulthandler.register(signal.SIGTERM, file=stack, chain=True)


def _call(start: Start, files: RankFiles) -> int:
    raised: dict[str, object] | None = None
    try:
        module, _, name = start.function.partition(":")
        function = getattr(importlib.import_module(module), name)
        function(start.cell, Path(start.out))
    except BaseException as error:
        raised = {
            "at_s": time.monotonic(),
            "summary": f"{type(error).__name__}: {error}".splitlines()[0],
            "traceback": "".join(traceback.format_exception(error)),
        }
        if isinstance(error, (UsageError, MissingExtra)) and error.hint:
            raised |= {"summary": error.message, "refused": error.hint}
    partial = files.status.with_suffix(".partial")
    partial.write_text(json.dumps({"raised": raised}))
    partial.replace(files.status)
    sys.stdout.flush()
    sys.stderr.flush()
    return 0 if raised is None else 1
