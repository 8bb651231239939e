from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from gradassay.goldens.layout import Layout
from gradassay.goldens.record import Record, read_record
from gradassay.goldens.sketch import sketch
from gradassay.harness.cell import Cell
from gradassay.harness.environments import ROOT_SETTING, Environment
from gradassay.harness.launch import Pool, Task
from gradassay.harness.launch.outcome import RUN_RANK
from gradassay.harness.problems import load_problem
from gradassay.harness.zoo import ensure

HERE = Path(__file__).parent
CHECKOUT = HERE.parents[1]
CONSTRAINTS = CHECKOUT / "ci" / "constraints.txt"


def _environment(framework: str) -> Environment:
    """The framework's environment, installed where it is missing; its ranks can import the functions of this folder."""
    found = ensure(framework, constraints=CONSTRAINTS if CONSTRAINTS.exists() else None)
    return replace(found, paths=(*found.paths, HERE))


@pytest.fixture(scope="session")
def framework_pool() -> Iterator[Pool]:
    """A pool whose ranks run in the environments of the zoo."""
    with pytest.MonkeyPatch.context() as patch:
        if ROOT_SETTING not in os.environ:
            patch.setenv(ROOT_SETTING, str(CHECKOUT / ".zoo"))
        with Pool(environments=_environment) as pool:
            yield pool


@pytest.fixture
def run(framework_pool: Pool, tmp_path: Path) -> Callable[..., Path]:
    """Runs one cell, given as text, on ranks and returns the file that they wrote."""

    def run(
        framework: str,
        strategy: str,
        problem: str,
        layout: str,
        *,
        dtype: str = "float32",
        function: str = RUN_RANK,
        **options: str,
    ) -> Path:
        cell = Cell(
            problem=problem,
            strategy=strategy,
            layout=Layout.parse(layout),
            dtype=dtype,
            framework=framework,
            options=options,
        )
        (outcome,) = framework_pool.run([Task(cell=cell, out=tmp_path / "out", function=function, deadline_s=120)])
        return outcome.require()

    return run


@dataclass(frozen=True)
class Units:
    """Sketches [U, 1024] float64 of every unit's gradient by parameter name, of its loss and of its auxiliary term."""

    loss: dict[str, NDArray[np.float64]]
    auxiliary: dict[str, NDArray[np.float64]]
    coefficients: NDArray[np.float64]

    def truth(self, name: str) -> NDArray[np.float64]:
        """[1024]: the gradient that the objective defines."""
        return self.coefficients @ self.loss[name]


@lru_cache
def unit_gradients(problem_name: str, count: int) -> Units:
    """Of the first `count` units, in float64 on one process."""
    problem = load_problem(problem_name)
    model = problem.build(torch.float64)
    trained = {name: parameter for name, parameter in model.named_parameters() if parameter.requires_grad}

    def sketches(loss: torch.Tensor) -> list[NDArray[np.float64]]:
        gradients = torch.autograd.grad(loss, list(trained.values()), retain_graph=True, allow_unused=True)
        zeros = (torch.zeros_like(parameter) for parameter in trained.values())
        return [
            sketch((zero if gradient is None else gradient).reshape(-1).numpy())
            for gradient, zero in zip(gradients, zeros, strict=True)
        ]

    loss, auxiliary = [], []
    for unit in range(count):
        terms = problem.losses(model, problem.batch(unit))
        loss.append(sketches(torch.stack(list(terms.values())).sum()))
        auxiliary.append(sketches(terms["aux"]) if "aux" in terms else [np.zeros(1024)] * len(trained))
    tokens = np.array([problem.tokens(unit) for unit in range(count)], dtype=float)
    weights = tokens if problem.objective == "token-mean" else np.ones(count)
    return Units(
        loss={name: np.stack([unit[index] for unit in loss]) for index, name in enumerate(trained)},
        auxiliary={name: np.stack([unit[index] for unit in auxiliary]) for index, name in enumerate(trained)},
        coefficients=weights / weights.sum(),
    )


@pytest.fixture(scope="session")
def units() -> Callable[[str, int], Units]:
    """Sketches of the gradients of a problem's first units; see Units."""
    return unit_gradients


@dataclass(frozen=True)
class Deviation:
    """How a family's parameters lie to what was expected: least and largest ratio, largest relative error."""

    low: float
    high: float
    error: float


@pytest.fixture(scope="session")
def deviations() -> Callable[..., dict[str, Deviation]]:
    """Compares a record's sketches with expected ones, by family; what is expected to be zero must be zero."""

    def compare(
        path: Path, expected: Callable[[str], NDArray[np.float64]], scale: Callable[[str], float] = lambda family: 1.0
    ) -> dict[str, Deviation]:
        record: Record = read_record(path)
        found: dict[str, list[tuple[float, float]]] = {}
        for parameter, measured in zip(record.header.parameters, record.captures["reduced.1"].sketch, strict=True):
            wanted = expected(parameter.name) * scale(parameter.family)
            if not wanted.any():
                assert not measured.any(), parameter.name
                continue
            ratio = float(measured @ wanted / (wanted @ wanted))
            error = float(np.linalg.norm(measured - wanted) / np.linalg.norm(wanted))
            found.setdefault(parameter.family, []).append((ratio, error))
        return {
            family: Deviation(
                low=min(ratio for ratio, _ in each),
                high=max(ratio for ratio, _ in each),
                error=max(error for _, error in each),
            )
            for family, each in found.items()
        }

    return compare
