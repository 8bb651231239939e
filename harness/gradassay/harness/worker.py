"""One rank of one cell: reads torchrun's contract, runs the step, captures it, and writes the record on rank 0."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import torch
import torch.distributed as dist

from gradassay.goldens.errors import UsageError
from gradassay.goldens.header import Problem as ProblemName
from gradassay.goldens.header import RecordHeader, StageStep
from gradassay.goldens.record import Record
from gradassay.harness.capture.exchange import Exchange
from gradassay.harness.capture.surroundings import environment, now, source
from gradassay.harness.capture.take import take
from gradassay.harness.cell import DTYPES, Cell
from gradassay.harness.faults import Site, parse_fault
from gradassay.harness.interference import Interference
from gradassay.harness.mesh import join
from gradassay.harness.problems import load_problem
from gradassay.harness.strategies import load
from gradassay.harness.strategies.protocol import Plan, Task, check_plan


def check_cell(cell: Cell) -> Plan:
    """The cell as a plan. Raises UsageError, before any rank starts, where it cannot run."""
    if cell.dtype not in DTYPES:
        raise UsageError(f"{cell}: no dtype profile {cell.dtype!r}", hint=f"known: {', '.join(DTYPES)}")
    plan = Plan(problem=load_problem(cell.problem), layout=cell.layout, dtype=cell.dtype, options=cell.options)
    check_plan(load(cell.strategy), plan)
    if cell.fault:
        parse_fault(cell.fault).check(_site(cell, plan, rank=0))
    return plan


def run_rank(cell: Cell, out: Path, *, interference: Interference | None = None) -> None:
    """Runs this rank of `cell`; rank 0 writes the record at `out`, whole or not at all.

    Reads RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR and MASTER_PORT; nccl where every rank has its own GPU, else gloo.
    interference: changes to the step, for negative controls. Raises UsageError where the cell cannot run, and
    Incomplete where ranks together do not hold every gradient exactly once.
    """
    plan = check_cell(cell)
    strategy = load(cell.strategy)
    with _process_group(cell) as device:
        ranks = join(cell.layout)
        changes = interference or _interference(cell, plan, ranks.dp_rank)
        outcome = strategy.run(Task(plan=plan, ranks=ranks, device=device, interference=changes))
        pieces = outcome.pieces if changes.pieces is None else changes.pieces(outcome.pieces)
        taken = take(
            pieces,
            plan.problem.parameters,
            Exchange(group=ranks.world, device=device),
            dp_rank=ranks.dp_rank,
            dp=cell.layout.dp,
            full=cell.full,
        )
        if ranks.dp_rank == 0:
            injected = {"fault": cell.fault} if cell.fault else {}
            header = RecordHeader(
                problem=ProblemName(name=plan.problem.name, digest=plan.problem.digest),
                framework=outcome.framework,
                strategy=cell.strategy,
                layout=cell.layout,
                dtype=DTYPES[cell.dtype],
                stages=(StageStep(stage="reduced", step=1),),
                parameters=taken.parameters,
                convention=dict(outcome.convention),
                environment={**environment(device), **outcome.environment, "options": dict(cell.options), **injected},
                source=source(),
                created=now(),
            )
            sketch_dtype = np.float64 if cell.dtype == "float64" else np.float32
            Record(header=header, captures={"reduced.1": taken.capture}).write(out, sketch_dtype=sketch_dtype)


def _interference(cell: Cell, plan: Plan, rank: int) -> Interference:
    if not cell.fault:
        return Interference()
    return parse_fault(cell.fault).interference(_site(cell, plan, rank=rank))


def _site(cell: Cell, plan: Plan, *, rank: int) -> Site:
    return Site(problem=plan.problem, layout=cell.layout, strategy=cell.strategy, dtype=cell.dtype, rank=rank)


@contextmanager
def _process_group(cell: Cell) -> Iterator[torch.device]:
    """The device of this rank, inside a default process group of the cell's size."""
    world = int(os.environ.get("WORLD_SIZE", "1"))
    if world != cell.layout.world:
        raise UsageError(
            f"{cell}: layout {cell.layout} has {cell.layout.world} ranks, but WORLD_SIZE is {world}",
            hint=f"start {cell.layout.world} ranks, as with torchrun --nproc-per-node {cell.layout.world}",
        )
    if missing := [name for name in ("RANK", "MASTER_ADDR", "MASTER_PORT") if name not in os.environ]:
        raise UsageError(
            f"{', '.join(missing)} not set: this process was not started as a rank",
            hint="start it by `gradassay record`, torchrun or srun",
        )
    device = _device()
    if device.type == "cuda":
        torch.cuda.set_device(device)
    else:
        torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "1")))
        os.environ.setdefault("NUMBA_NUM_THREADS", "1")
    dist.init_process_group("nccl" if device.type == "cuda" else "gloo")
    try:
        yield device
    finally:
        dist.destroy_process_group()


def _device() -> torch.device:
    """This rank's GPU where each rank of this machine has one, else the CPU."""
    local_ranks = int(os.environ.get("LOCAL_WORLD_SIZE", os.environ.get("WORLD_SIZE", "1")))
    if torch.cuda.is_available() and torch.cuda.device_count() >= local_ranks:
        return torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")))
    return torch.device("cpu")
