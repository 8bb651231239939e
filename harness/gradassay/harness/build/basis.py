"""The gradient of every unit alone, in float64: on ranks of their own, a stretch of units each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from gradassay.goldens.atomic import write_atomically
from gradassay.goldens.golden import Basis
from gradassay.goldens.layout import Layout
from gradassay.goldens.sketch import BUCKETS, measure
from gradassay.harness.cell import Cell
from gradassay.harness.launch import Task
from gradassay.harness.problems import load_problem
from gradassay.harness.problems.protocol import Batch, Problem

if TYPE_CHECKING:
    from torch import nn

RUN_BASIS = "gradassay.harness.build.basis:run_basis"
PARTS = 2
_FIRST, _END, _UPDATED, _RATE = "first", "end", "updated", "rate"


@dataclass(frozen=True, slots=True, kw_only=True)
class Following:
    """What comes before a second basis: an SGD update with the gradient of the first `units` units."""

    units: int
    learning_rate: float


def basis_tasks(problem: str, folder: Path, *, deadline_s: float, following: Following | None = None) -> list[Task]:
    """Tasks that compute the basis of a problem in PARTS stretches of units, each on one rank, into `folder`.

    following: the update of the weights that comes before, if any.
    """
    before = {} if following is None else {_UPDATED: str(following.units), _RATE: repr(following.learning_rate)}
    units = load_problem(problem).units
    bounds = [units * part // PARTS for part in range(PARTS + 1)]
    return [
        Task(
            cell=Cell(
                problem=problem,
                strategy="single",
                layout=Layout(),
                dtype="float64",
                options={_FIRST: str(first), _END: str(end), **before},
            ),
            out=folder / f"basis.{1 if following is None else 2}.{first}.safetensors",
            function=RUN_BASIS,
            deadline_s=deadline_s,
        )
        for first, end in pairwise(bounds)
        if first < end
    ]


def run_basis(cell: Cell, out: Path) -> None:
    """Writes sketches and sums of squares of the gradients of the cell's units [first, end); called on one rank.

    Arrays: `norm2` [U, P], `sketch` [U, P, 1024] of the sum of all terms, and `term.<name>` [U, P, 1024] of each.
    """
    import torch
    from safetensors.numpy import save

    torch.set_num_threads(1)
    problem = load_problem(cell.problem)
    units = range(int(cell.options[_FIRST]), int(cell.options[_END]))
    model = problem.build(torch.float64)
    if _UPDATED in cell.options:
        update(problem, model, Following(units=int(cell.options[_UPDATED]), learning_rate=float(cell.options[_RATE])))
    write_atomically(out, save(basis_arrays(problem, model, [problem.batch(unit) for unit in units])))


def update(problem: Problem, model: nn.Module, following: Following) -> None:
    """Updates the model in place by one step of SGD with the gradient of the objective over the first units."""
    import torch

    from gradassay.harness.strategies.single import unit_gradients

    tokens = [problem.tokens(unit) for unit in range(following.units)]
    counts = [1] * following.units if problem.objective == "unit-mean" else tokens
    parameters = dict(model.named_parameters())
    total = {parameter.name: torch.zeros_like(parameters[parameter.name]) for parameter in problem.parameters}
    for unit, count in enumerate(counts):
        for gradients in unit_gradients(problem, model, unit).values():
            for name, gradient in gradients.items():
                total[name] += gradient * (count / sum(counts))
    with torch.no_grad():
        for name, gradient in total.items():
            parameters[name].sub_(gradient, alpha=following.learning_rate)


def basis_arrays(problem: Problem, model: nn.Module, batches: Sequence[Batch]) -> dict[str, NDArray[np.float64]]:
    """Sketches and sums of squares of the gradients of the mean losses of `batches`, by the names that `run_basis` writes.

    model: of the problem, in float64.
    """
    import torch

    from gradassay.harness.strategies.single import batch_gradients

    shape = (len(batches), len(problem.parameters))
    arrays = {"norm2": np.zeros(shape)} | {
        name: np.zeros((*shape, BUCKETS)) for name in ("sketch", *(f"term.{term}" for term in problem.terms))
    }
    for row, batch in enumerate(batches):
        gradients = batch_gradients(problem, model, batch)
        for column, parameter in enumerate(problem.parameters):
            parts = {term: of[parameter.name].detach().reshape(-1) for term, of in gradients.items()}
            for term in problem.terms:
                arrays[f"term.{term}"][row, column] = measure(parts[term].numpy()).sketch
            measured = measure(torch.stack(list(parts.values())).sum(0).numpy())
            arrays["sketch"][row, column] = measured.sketch
            arrays["norm2"][row, column] = measured.norm2
    return arrays


def read_basis(paths: Sequence[Path]) -> Basis:
    """The basis whose stretches of units were written at `paths`, in order."""
    from safetensors.numpy import load_file

    parts = [load_file(path) for path in paths]
    return to_basis({name: np.concatenate([part[name] for part in parts]) for name in sorted(parts[0])})


def to_basis(arrays: Mapping[str, NDArray[np.float64]]) -> Basis:
    """The basis of arrays by the names that `run_basis` writes."""
    terms = {name.removeprefix("term."): values for name, values in arrays.items() if name.startswith("term.")}
    return Basis(sketch=arrays["sketch"], norm2=arrays["norm2"], terms=terms)
