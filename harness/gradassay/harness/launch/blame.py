"""Which rank failed first, and why: the others fail too, of connections that it broke."""

from __future__ import annotations

import json
import re
import signal
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from gradassay.harness.launch.outcome import Failure
from gradassay.harness.launch.rank import RankFiles

_LOST_PEER = re.compile(
    r"connection (was )?(likely )?(closed|reset|refused|aborted)|broken pipe|closed by peer|reset by peer|pair closure"
    r"|timed out|ncclremoteerror|failed to recv|dist(store|network|backend)error",
    re.IGNORECASE,
)
_WAITING = ("torch/distributed", "megatron/core/distributed", "deepspeed/comm")
_LOG_LINES, _LOG_BYTES = 40, 8192


@dataclass(frozen=True, slots=True, kw_only=True)
class Death:
    """A rank that ended by itself. code: its exit code, or minus its signal; at_s: on the monotonic clock."""

    rank: int
    code: int
    at_s: float


def is_done(folder: Path, rank: int) -> bool:
    """Whether the rank's function came to an end, by returning or by raising."""
    return RankFiles(folder=folder, rank=rank).status.exists()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Cause:
    failure: Failure
    consequence: bool
    at_s: float


def first_failure(folder: Path, deaths: Sequence[Death]) -> Failure | None:
    """The failure of the rank that failed first, or None where every rank returned from its function.

    A rank that died without an exception comes before those that report a lost connection, whatever the clock says: it
    is what they lost. Among equals the earlier one is named.
    """
    causes = [cause for cause in (_cause(folder, death) for death in deaths) if cause is not None]
    if not causes:
        return None
    return min(causes, key=lambda cause: (cause.consequence, cause.at_s)).failure


def late_failure(folder: Path, unfinished: Sequence[int], deadline_s: float) -> Failure:
    """The failure of a cell whose deadline passed: the rank that is not waiting for the others, and all stacks."""
    stacks = {rank: _read(RankFiles(folder=folder, rank=rank).stack) for rank in unfinished}
    elsewhere = [rank for rank, stack in stacks.items() if stack and not any(part in stack for part in _WAITING)]
    rank = (elsewhere or list(unfinished))[0]
    ordered = sorted(stacks.items(), key=lambda item: (item[0] != rank, item[0]))
    return Failure(
        rank=rank,
        reason=f"did not finish within {deadline_s:g} s",
        traceback="\n".join(f"rank {number}:\n{stack.rstrip()}" for number, stack in ordered),
        log=_tail(folder, rank),
    )


def _cause(folder: Path, death: Death) -> _Cause | None:
    files = RankFiles(folder=folder, rank=death.rank)
    status = json.loads(_read(files.status) or "{}")
    raised = status.get("raised")
    if raised is not None:
        failure = Failure(
            rank=death.rank,
            reason=raised["summary"],
            traceback=raised["traceback"],
            log=_tail(folder, death.rank),
            refused=raised.get("refused", ""),
        )
        return _Cause(failure=failure, consequence=bool(_LOST_PEER.search(raised["summary"])), at_s=raised["at_s"])
    if status and death.code == 0:
        return None
    failure = Failure(
        rank=death.rank, reason=_reason(death.code), traceback=_read(files.stack), log=_tail(folder, death.rank)
    )
    return _Cause(failure=failure, consequence=death.code == -signal.SIGABRT, at_s=death.at_s)


def _reason(code: int) -> str:
    if code == -signal.SIGKILL:
        return "killed by SIGKILL (by the kernel, where memory ran out)"
    if code < 0:
        return f"killed by {signal.Signals(-code).name}"
    return f"ended with exit code {code} before its work was done, without an exception"


def _tail(folder: Path, rank: int) -> str:
    text = _read(RankFiles(folder=folder, rank=rank).log)[-_LOG_BYTES:]
    return "\n".join(text.splitlines()[-_LOG_LINES:])


def _read(path: Path) -> str:
    return path.read_text(errors="replace") if path.exists() else ""
