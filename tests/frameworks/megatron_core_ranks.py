"""Rank functions for forked Megatron-Core ranks; imported by name."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from gradassay.harness.capture.change import kept
from gradassay.harness.cell import Cell
from gradassay.harness.interference import Interference
from gradassay.harness.mesh import join
from gradassay.harness.strategies import load
from gradassay.harness.strategies.task import Task
from gradassay.harness.worker import check_cell, run_rank

LEARNING_RATE = 2.0**14
"""So large that the rounding of parameters does not hide their change."""


def compare_ways(cell: Cell, out: Path) -> None:
    """Writes by rank and canonical name how far the pieces lie, relatively, from how an SGD step changed the whole model
    parameter, which the package gathers after the step.
    """
    task, session = _started(cell, LEARNING_RATE)
    before = task.problem.weights()
    session.accumulate()
    pieces = kept(session.gradients())
    session.update()
    compared = {}
    for share, piece in zip(session.shares, pieces, strict=True):
        after = share.parameter.detach().double().reshape(-1)
        change = (torch.from_numpy(before[piece.name]).double().reshape(-1) - after) / LEARNING_RATE
        (first, length), values = piece.runs[0].tolist(), piece.values
        assert values is not None
        compared[piece.name] = ((values.double() - change[first : first + length]).norm() / change.norm()).item()
    _write(compared, out)


def next_window(cell: Cell, out: Path) -> None:
    """Writes by rank and canonical name how far the gradients of a second window lie from those of the first, with an
    update between them that changes nothing.
    """
    _, session = _started(cell, 0.0)
    session.accumulate()
    first = kept(session.gradients())
    session.update()
    session.accumulate()
    compared = {}
    for before, after in zip(first, session.gradients(), strict=True):
        assert before.values is not None
        assert after.values is not None
        scale = before.values.norm().clamp_min(1e-30)
        compared[before.name] = ((before.values - after.values).norm() / scale).item()
    _write(compared, out)


def disturbed(cell: Cell, out: Path) -> None:
    """A cell whose rank 1 triples its local gradients of micro step 0 of every expert and of every layer norm."""

    def gradient(name: str, rank: int, micro: int, values: Tensor) -> Tensor | None:
        return values * 3 if rank == 1 and micro == 0 and (".experts." in name or "norm" in name) else None

    run_rank(cell, out, interference=Interference(gradient=gradient))


def with_other_terms(cell: Cell, out: Path) -> None:
    """A cell whose loss is changed before it is summed."""
    run_rank(cell, out, interference=Interference(terms=lambda losses, _rank, _micro: losses))


def _started(cell: Cell, learning_rate: float) -> tuple[Task, Any]:
    dist.init_process_group("gloo")
    plan = replace(check_cell(cell), learning_rate=learning_rate)
    task = Task(plan=plan, ranks=join(cell.layout), device=torch.device("cpu"))
    return task, load(cell.strategy).start(task)


def _write(compared: dict[str, float], out: Path) -> None:
    everyone: list[dict[str, float] | None] = [None] * dist.get_world_size()
    dist.all_gather_object(everyone, compared)
    if dist.get_rank() == 0:
        out.write_text(json.dumps(everyone))
    dist.destroy_process_group()
