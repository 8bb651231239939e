"""Rank functions for forked DeepSpeed ranks; imported by name."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from gradassay.harness.capture.piece import Piece
from gradassay.harness.cell import Cell
from gradassay.harness.interference import Interference
from gradassay.harness.mesh import join
from gradassay.harness.strategies.deepspeed import DeepSpeed
from gradassay.harness.strategies.deepspeed_engine import engine_moment
from gradassay.harness.strategies.deepspeed_training import Training
from gradassay.harness.strategies.task import Task
from gradassay.harness.worker import check_cell, run_rank

LEARNING_RATE = 64.0
"""So large that a wrong gradient moves the parameters far beyond their rounding."""


@contextmanager
def _started(cell: Cell) -> Iterator[Training]:
    dist.init_process_group("gloo")
    plan = replace(check_cell(cell), learning_rate=LEARNING_RATE)
    yield DeepSpeed(int(cell.strategy[-1])).start(Task(plan=plan, ranks=join(cell.layout), device=torch.device("cpu")))
    dist.destroy_process_group()


def compare_ways(cell: Cell, out: Path) -> None:
    """Writes, for each of two windows and by canonical name, how far other ways to the same numbers lie from the pieces,
    relatively: DeepSpeed's own accessors of gradients and of values, and the values after a step of SGD; and how far that
    step moved them.
    """
    windows: list[Any] = []
    with _started(cell) as session:
        for _ in range(2):
            session.accumulate()
            gradients, accessed = _by_name(session.gradients()), _accessed(session)
            before = _by_name(session.weights())
            session.update()
            pieces = session.weights()
            after, values = _by_name(pieces), _parameters(session)
            own = {
                piece.name: {
                    "accessor": _distance(gradients[piece.name], _part(accessed[piece.name], piece)),
                    "value": _distance(after[piece.name], _part(values[piece.name], piece)),
                    "update": _distance(after[piece.name], before[piece.name] - LEARNING_RATE * gradients[piece.name]),
                    "moved": _distance(after[piece.name], before[piece.name]),
                }
                for piece in pieces
            }
            everyone: list[Any] = [None] * cell.layout.dp
            dist.all_gather_object(everyone, own)
            windows.append(everyone)
        if dist.get_rank() == 0:
            out.write_text(json.dumps(windows))


def _by_name(pieces: list[Piece]) -> dict[str, Tensor]:
    return {piece.name: piece.values.detach().double().clone() for piece in pieces if piece.values is not None}


def _part(whole: Tensor, piece: Piece) -> Tensor:
    return torch.cat([whole[first : first + length] for first, length in piece.runs.tolist()])


def _distance(own: Tensor, other: Tensor) -> float:
    return ((own - other).norm() / other.norm().clamp_min(1e-300)).item()


def _accessed(session: Training) -> dict[str, Tensor]:
    from deepspeed.utils import safe_get_full_grad

    return _of_each(session, safe_get_full_grad)


def _parameters(session: Training) -> dict[str, Tensor]:
    from deepspeed.utils import safe_get_full_fp32_param

    def value(parameter: Any) -> Tensor:
        whole = safe_get_full_fp32_param(parameter)
        found: Tensor = parameter if whole is None else whole
        return found

    return _of_each(session, value)


def _of_each(session: Training, read: Callable[[Any], Tensor]) -> dict[str, Tensor]:
    return {
        name: read(parameter).detach().double().clone().reshape(-1)
        for name, parameter in session.named
        if parameter.requires_grad
    }


def moments(cell: Cell, out: Path) -> None:
    """Writes what `engine_moment` says at every point of two windows, and under no_sync() where this release has it."""
    found: list[tuple[str, str | None]] = []
    with _started(cell) as session:
        engine, task = session.engine, session.task
        found.append(("start", engine_moment(engine)))
        for window in range(2):
            for micro in task.micro_steps():
                loss = task.loss(engine, micro)
                found.append((f"forward {window}.{micro}", engine_moment(engine)))
                engine.backward(loss)
                found.append((f"backward {window}.{micro}", engine_moment(engine)))
                engine.step()
                found.append((f"step {window}.{micro}", engine_moment(engine)))
        if session.engine.zero_optimization_stage() < 2 and hasattr(engine, "no_sync"):
            with engine.no_sync():
                engine.backward(task.loss(engine, 0))
                found.append(("within no_sync", engine_moment(engine)))
        if dist.get_rank() == 0:
            out.write_text(json.dumps(found))


def half(cell: Cell, out: Path) -> None:
    """A cell in fp16 on CPUs, which torch itself can compute: DeepSpeed is told so, where it would not try."""
    from deepspeed.accelerator import get_accelerator

    get_accelerator().is_fp16_supported = lambda: True
    get_accelerator().supported_dtypes = lambda: [torch.float, torch.half, torch.bfloat16]
    run_rank(cell, out)


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
