"""Ranks that somebody else started."""

from __future__ import annotations

import pytest

from gradassay.goldens.errors import UsageError
from gradassay.harness.launch.torchrun import Rank, first_host, launched_rank

TORCHRUN = {
    "RANK": "5",
    "WORLD_SIZE": "8",
    "LOCAL_RANK": "1",
    "LOCAL_WORLD_SIZE": "4",
    "MASTER_ADDR": "node1",
    "MASTER_PORT": "29500",
}
SRUN = {
    "SLURM_PROCID": "3",
    "SLURM_STEP_NUM_TASKS": "5",
    "SLURM_LOCALID": "1",
    "SLURM_NODEID": "1",
    "SLURM_STEP_TASKS_PER_NODE": "2(x2),1",
    "SLURM_STEP_NODELIST": "node[007-009]",
    "SLURM_JOB_ID": "42",
    "SLURM_STEP_ID": "1",
}


def test_no_launch_is_none() -> None:
    assert launched_rank({"PATH": "/bin"}) is None


def test_torchrun() -> None:
    rank = launched_rank(TORCHRUN)
    assert rank == Rank(rank=5, world=8, local_rank=1, local_world=4, master="node1", port=29500)
    assert rank.variables() == TORCHRUN


def test_srun() -> None:
    rank = launched_rank(SRUN)
    assert rank is not None
    assert (rank.rank, rank.world, rank.local_rank, rank.local_world, rank.master) == (3, 5, 1, 2, "node007")
    assert rank.port == launched_rank({**SRUN, "SLURM_PROCID": "0"}).port
    assert rank.port != launched_rank({**SRUN, "SLURM_STEP_ID": "2"}).port
    assert launched_rank({**SRUN, "MASTER_ADDR": "other", "MASTER_PORT": "1"}).variables()["MASTER_ADDR"] == "other"


def test_torchrun_inside_srun_wins() -> None:
    assert launched_rank({**SRUN, **TORCHRUN}).rank == 5


def test_one_slurm_task_is_no_launch() -> None:
    assert launched_rank({**SRUN, "SLURM_STEP_NUM_TASKS": "1"}) is None


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"MASTER_PORT": None, "LOCAL_RANK": None}, "LOCAL_RANK, MASTER_PORT are not"),
        ({"RANK": None}, "RANK is not"),
        ({"RANK": "x"}, "RANK='x' is not a whole number"),
        ({"RANK": "8"}, "RANK=8 is not below WORLD_SIZE=8"),
    ],
)
def test_incomplete_variables(change: dict[str, str | None], message: str) -> None:
    variables = {name: value for name, value in {**TORCHRUN, **change}.items() if value is not None}
    with pytest.raises(UsageError, match=message):
        launched_rank(variables)


@pytest.mark.parametrize(
    ("nodes", "host"),
    [
        ("alone", "alone"),
        ("a1,a2", "a1"),
        ("node[007-009,12],other", "node007"),
        ("rack[2]-ib,rack[3]-ib", "rack2-ib"),
    ],
)
def test_first_host(nodes: str, host: str) -> None:
    assert first_host(nodes) == host
