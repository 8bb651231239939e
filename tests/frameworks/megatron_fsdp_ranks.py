"""Rank functions for forked Megatron-FSDP ranks; imported by name."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from gradassay.harness.capture.change import kept
from gradassay.harness.cell import Cell
from gradassay.harness.interference import Interference
from gradassay.harness.mesh import join
from gradassay.harness.strategies.megatron_fsdp import MegatronFsdp
from gradassay.harness.strategies.task import Task
from gradassay.harness.worker import check_cell, run_rank

LEARNING_RATE = 2.0**14
"""So large that the rounding of parameters does not hide their change."""


def compare_ways(cell: Cell, out: Path) -> None:
    """Writes by rank and canonical name how far the pieces lie, relatively, from how an SGD step changed the whole
    parameter, which the package itself gathers in the next forward pass.
    """
    dist.init_process_group("gloo")
    plan = replace(check_cell(cell), learning_rate=LEARNING_RATE)
    task = Task(plan=plan, ranks=join(cell.layout), device=torch.device("cpu"))
    session = MegatronFsdp().start(task)
    before = task.problem.weights()
    session.accumulate()
    pieces = kept(session.gradients())
    session.update()
    after = _gathered(session.model, lambda: task.losses(session.model, 0))
    compared = {}
    for piece in pieces:
        change = ((torch.from_numpy(before[piece.name]).double() - after[piece.name]) / LEARNING_RATE).reshape(-1)
        for first, length in piece.runs.tolist():
            assert piece.values is not None
            distance = (piece.values.double() - change[first : first + length]).norm()
            compared[piece.name] = (distance / change.norm()).item()
    everyone: list[dict[str, float] | None] = [None] * cell.layout.dp
    dist.all_gather_object(everyone, compared)
    if dist.get_rank() == 0:
        out.write_text(json.dumps(everyone))
    dist.destroy_process_group()


def _gathered(model: Any, forward: Callable[[], Any]) -> dict[str, Tensor]:
    """Every parameter as its module finds it when `forward` gets there."""
    names = {id(module): name for name, module in model.module.named_modules()}
    found = {}

    def look(module: nn.Module, _inputs: Any) -> None:
        for local, parameter in module.named_parameters(recurse=False):
            found[f"{names[id(module)]}.{local}"] = parameter.data.double().clone()

    for module in model.module.modules():
        module.register_forward_pre_hook(look)
    with torch.no_grad():
        forward()
    return found


def disturbed(cell: Cell, out: Path) -> None:
    """A cell whose rank 1 triples its local gradients of micro step 0 of every layer norm."""

    def gradient(name: str, rank: int, micro: int, values: Tensor) -> Tensor | None:
        return values * 3 if rank == 1 and micro == 0 and "norm" in name else None

    run_rank(cell, out, interference=Interference(gradient=gradient))
