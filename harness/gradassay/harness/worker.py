"""One rank of one cell: reads torchrun's contract, runs the step, captures it, and writes the record on rank 0."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor

from gradassay.goldens.errors import UsageError
from gradassay.goldens.header import Problem as ProblemName
from gradassay.goldens.header import RecordHeader, Update
from gradassay.goldens.record import Record
from gradassay.harness.capture.exchange import Exchange
from gradassay.harness.capture.piece import whole
from gradassay.harness.capture.surroundings import environment, now, source
from gradassay.harness.capture.units import UnitSketches
from gradassay.harness.cell import DTYPES, Cell
from gradassay.harness.faults import Site, parse_fault
from gradassay.harness.interference import GradientHook, Interference
from gradassay.harness.mesh import join
from gradassay.harness.problems import load_problem
from gradassay.harness.steps import Steps
from gradassay.harness.strategies import load
from gradassay.harness.strategies.protocol import Session, check_plan
from gradassay.harness.strategies.task import Plan, Task


def check_cell(cell: Cell) -> Plan:
    """The cell as a plan. Raises UsageError, before any rank starts, where it cannot run."""
    if cell.dtype not in DTYPES:
        raise UsageError(f"{cell}: no dtype profile {cell.dtype!r}", hint=f"known: {', '.join(DTYPES)}")
    plan = Plan(
        problem=load_problem(cell.problem),
        layout=cell.layout,
        dtype=cell.dtype,
        options=cell.options,
        learning_rate=cell.learning_rate,
        max_norm=cell.max_norm,
    )
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
    with _process_group(cell) as device:
        _run(cell, plan, device, out, interference)


def _run(cell: Cell, plan: Plan, device: torch.device, out: Path, interference: Interference | None) -> None:
    """What a rank does within its process group. All that refers to a group must be gone before the group is."""
    ranks = join(cell.layout)
    steps = Steps(
        cell=cell,
        parameters=plan.problem.parameters,
        exchange=Exchange(group=ranks.world, device=device),
        dp_rank=ranks.dp_rank,
        interference=interference or _interference(cell, plan, ranks.dp_rank),
    )
    if "local" in cell.stages:
        steps.units = UnitSketches(
            plan.problem.parameters,
            steps.exchange,
            accum=cell.layout.accum,
            dp_rank=ranks.dp_rank,
            dp=cell.layout.dp,
        )
    task = Task(
        plan=plan,
        ranks=ranks,
        device=device,
        interference=steps.interference,
        observer=_observer(steps.units) if steps.units is not None else None,
    )
    session = load(cell.strategy).start(task)
    steps.run(session)
    if ranks.dp_rank == 0:
        _write(steps, session, plan, device, out)


def _write(steps: Steps, session: Session, plan: Plan, device: torch.device, out: Path) -> None:
    cell = steps.cell
    injected = {"fault": cell.fault} if cell.fault else {}
    header = RecordHeader(
        problem=ProblemName(name=plan.problem.name, digest=plan.problem.digest),
        framework=session.framework,
        strategy=cell.strategy,
        layout=cell.layout,
        dtype=DTYPES[cell.dtype],
        stages=tuple(steps.captures),
        parameters=steps.parameters,
        convention=dict(session.convention),
        environment={**environment(device), **session.environment, "options": dict(cell.options), **injected},
        source=source(),
        created=now(),
        update=Update(learning_rate=cell.learning_rate, max_norm=cell.max_norm) if cell.learning_rate else None,
    )
    record = Record(header=header, captures={str(where): capture for where, capture in steps.captures.items()})
    record.write(out, sketch_dtype=np.float64 if cell.dtype == "float64" else np.float32)


def _observer(units: UnitSketches) -> GradientHook:
    """Sketches a whole local gradient as its hook hands it over."""

    def observe(name: str, _rank: int, micro: int, gradient: Tensor) -> None:
        units.add([whole(name, gradient, numel=gradient.numel())], micro)

    return observe


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
    dist.init_process_group("nccl" if device.type == "cuda" else "gloo")
    try:
        yield device
    finally:
        # A reducer that outlives its group waits for the group's threads, which wait for this one.
        gc.collect()
        dist.destroy_process_group()


def _device() -> torch.device:
    """This rank's GPU where each rank of this machine has one, else the CPU."""
    local_ranks = int(os.environ.get("LOCAL_WORLD_SIZE", os.environ.get("WORLD_SIZE", "1")))
    if torch.cuda.is_available() and torch.cuda.device_count() >= local_ranks:
        return torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")))
    return torch.device("cpu")
