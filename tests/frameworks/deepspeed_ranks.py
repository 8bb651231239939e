"""Rank functions for forked DeepSpeed ranks; imported by name."""

from __future__ import annotations

import json
from pathlib import Path

import torch
import torch.distributed as dist
from torch import Tensor

from gradassay.harness.cell import Cell
from gradassay.harness.interference import Interference
from gradassay.harness.mesh import join
from gradassay.harness.strategies.deepspeed import DeepSpeed, Session
from gradassay.harness.strategies.deepspeed_gradients import held
from gradassay.harness.strategies.protocol import Task
from gradassay.harness.worker import check_cell, run_rank

LEARNING_RATE = 2.0**14


def compare_ways(cell: Cell, out: Path) -> None:
    """Writes by canonical name how far two other ways to the reduced gradient lie from the pieces, relatively:
    DeepSpeed's own accessor, and the parameter change of an SGD step with a large learning rate (so that rounding of
    the parameters does not hide the change).
    """
    dist.init_process_group("gloo")
    ranks = join(cell.layout)
    strategy = DeepSpeed(int(cell.strategy[-1]))
    task = Task(plan=check_cell(cell), ranks=ranks, device=torch.device("cpu"))
    before = task.problem.weights()
    session = strategy.backward(task, learning_rate=LEARNING_RATE)
    pieces = {piece.name: piece for piece in held(session.named, ranks, strategy.stage)}
    local: dict[str, list[tuple[int, int, Tensor]]] = {}
    for name, piece in pieces.items():
        parts = piece.values.double().split([length for _, length in piece.runs.tolist()])
        local[name] = [(first, length, part) for (first, length), part in zip(piece.runs.tolist(), parts, strict=True)]
    accessed = _accessed(session)
    session.engine.step()
    after = _parameters(session)
    compared = {}
    for name, accessor in accessed.items():
        change = (torch.from_numpy(before[name]).double() - after[name]) / LEARNING_RATE
        scale = accessor.norm().clamp_min(1e-300)
        difference = {"accessor": 0.0, "update": 0.0}
        for first, length, values in local.get(name, []):
            for way, other in (("accessor", accessor), ("update", change)):
                distance = (values - other.reshape(-1)[first : first + length]).norm() / scale
                difference[way] = max(difference[way], distance.item())
        compared[name] = difference
    everyone: list[dict[str, dict[str, float]] | None] = [None] * cell.layout.dp
    dist.all_gather_object(everyone, compared)
    if dist.get_rank() == 0:
        out.write_text(json.dumps(everyone))
    dist.destroy_process_group()


def _accessed(session: Session) -> dict[str, Tensor]:
    from deepspeed.utils import safe_get_full_grad

    return {
        name: safe_get_full_grad(parameter).detach().double().clone().reshape(-1)
        for name, parameter in session.named
        if parameter.requires_grad
    }


def _parameters(session: Session) -> dict[str, Tensor]:
    from deepspeed.utils import safe_get_full_fp32_param

    found = {}
    for name, parameter in session.named:
        if parameter.requires_grad:
            whole = safe_get_full_fp32_param(parameter)
            found[name] = (parameter if whole is None else whole).detach().double().clone()
    return found


def disturbed(cell: Cell, out: Path) -> None:
    """A cell whose rank 1 triples its local gradients of micro step 0 of every expert and of every layer norm, and
    doubles its auxiliary loss of the last micro step.
    """

    def gradient(name: str, rank: int, micro: int, values: Tensor) -> Tensor | None:
        return values * 3 if rank == 1 and micro == 0 and (".experts." in name or "norm" in name) else None

    def terms(losses: dict[str, Tensor], rank: int, micro: int) -> dict[str, Tensor]:
        if rank == 1 and micro == cell.layout.accum - 1 and "aux" in losses:
            losses = {**losses, "aux": losses["aux"] * 2}
        return losses

    run_rank(cell, out, interference=Interference(gradient=gradient, terms=terms))
