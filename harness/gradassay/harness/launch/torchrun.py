"""The rank that this process already is, where torchrun or srun started it."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass

from gradassay.goldens.errors import UsageError

_TORCHRUN = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT")
_FIRST_PORT, _PORTS = 20_000, 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Rank:
    """One rank of a launch, by torchrun's contract."""

    rank: int
    world: int
    local_rank: int
    local_world: int
    master: str
    port: int

    def variables(self) -> dict[str, str]:
        """The environment variables of the contract, for os.environ."""
        return {
            "RANK": str(self.rank),
            "WORLD_SIZE": str(self.world),
            "LOCAL_RANK": str(self.local_rank),
            "LOCAL_WORLD_SIZE": str(self.local_world),
            "MASTER_ADDR": self.master,
            "MASTER_PORT": str(self.port),
        }


def launched_rank(environment: Mapping[str, str] | None = None) -> Rank | None:
    """The rank that torchrun or srun made of this process, or None where neither did.

    Under srun (a step of more than one task) ranks follow SLURM_PROCID; the first node of the step is the meeting
    point, at a port that follows from the job and step unless MASTER_PORT says otherwise. Raises UsageError where the
    variables are incomplete.
    """
    variables = os.environ if environment is None else environment
    if "RANK" in variables or "WORLD_SIZE" in variables:
        return _from_torchrun(variables)
    if _number(variables, "SLURM_STEP_NUM_TASKS", 1) > 1 and "SLURM_PROCID" in variables:
        return _from_slurm(variables)
    return None


def _from_torchrun(variables: Mapping[str, str]) -> Rank:
    missing = [name for name in _TORCHRUN if name not in variables]
    if missing:
        found = ", ".join(f"{name}={variables[name]}" for name in _TORCHRUN if name in variables)
        raise UsageError(
            f"{found} are set, but {', '.join(missing)} {'is' if len(missing) == 1 else 'are'} not",
            hint="start every rank with torchrun, or unset RANK and WORLD_SIZE to let gradassay start the ranks itself",
        )
    world = _number(variables, "WORLD_SIZE")
    rank = Rank(
        rank=_number(variables, "RANK"),
        world=world,
        local_rank=_number(variables, "LOCAL_RANK"),
        local_world=_number(variables, "LOCAL_WORLD_SIZE", world),
        master=variables["MASTER_ADDR"],
        port=_number(variables, "MASTER_PORT"),
    )
    if not 0 <= rank.rank < rank.world:
        raise UsageError(f"RANK={rank.rank} is not below WORLD_SIZE={rank.world}")
    return rank


def _from_slurm(variables: Mapping[str, str]) -> Rank:
    world = _number(variables, "SLURM_STEP_NUM_TASKS")
    job, step = _number(variables, "SLURM_JOB_ID", 0), _number(variables, "SLURM_STEP_ID", 0)
    here = variables.get("SLURM_STEP_TASKS_PER_NODE", str(world))
    return Rank(
        rank=_number(variables, "SLURM_PROCID"),
        world=world,
        local_rank=_number(variables, "SLURM_LOCALID", 0),
        local_world=_tasks(here)[_number(variables, "SLURM_NODEID", 0)],
        master=variables.get("MASTER_ADDR") or first_host(variables.get("SLURM_STEP_NODELIST", "127.0.0.1")),
        port=_number(variables, "MASTER_PORT", _FIRST_PORT + (job * 31 + step) % _PORTS),
    )


def first_host(nodes: str) -> str:
    """The first host of a SLURM node list: `node[007-009,12],other` gives `node007`."""
    first = re.match(r"([^,\[]+)(?:\[(\d+)[^\]]*\]([^,]*))?", nodes)
    if first is None:
        raise UsageError(f"SLURM_STEP_NODELIST={nodes!r} names no host", hint="set MASTER_ADDR")
    return "".join(filter(None, first.groups()))


def _tasks(text: str) -> list[int]:
    """Tasks of each node: `2(x3),1` gives [2, 2, 2, 1]."""
    counts = re.findall(r"(\d+)(?:\(x(\d+)\))?", text)
    return [int(count) for count, times in counts for _ in range(int(times or 1))]


def _number(variables: Mapping[str, str], name: str, default: int | None = None) -> int:
    text = variables.get(name)
    if text is None and default is not None:
        return default
    try:
        return int(text or "")
    except ValueError:
        raise UsageError(f"{name}={text!r} is not a whole number", hint="it is set by torchrun or srun") from None
