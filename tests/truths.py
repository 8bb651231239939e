"""The float64 truth of a problem: every unit's own gradient, from one process, as sketches."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

from gradassay.goldens.layout import Layout
from gradassay.goldens.record import Record
from gradassay.goldens.sketch import sketch
from gradassay.harness.problems import load_problem
from gradassay.harness.problems.protocol import Problem


@dataclass(frozen=True, kw_only=True)
class Truth:
    """terms: by term, [U, P, 1024] float64."""

    problem: Problem
    terms: dict[str, NDArray[np.float64]]

    def coefficients(self, layout: Layout) -> NDArray[np.float64]:
        """[units] c_true of a layout's units."""
        if self.problem.objective == "unit-mean":
            return np.full(layout.units, 1 / layout.units)
        tokens = np.array([self.problem.tokens(unit) for unit in range(layout.units)], dtype=np.float64)
        return tokens / tokens.sum()

    def gradient(self, layout: Layout, weights: NDArray[np.float64] | None = None) -> NDArray[np.float64]:
        """[P, 1024]: what the objective defines, with units weighted by `weights` [units]."""
        coefficients = self.coefficients(layout) * (1 if weights is None else weights)
        return np.tensordot(coefficients, sum(self.terms.values())[: layout.units], 1)

    def rows(self, *families: str) -> list[int]:
        """Places of the parameters of these families."""
        return [place for place, parameter in enumerate(self.problem.parameters) if parameter.family in families]


@cache
def truth_of(name: str) -> Truth:
    """The truth of all units of a problem."""
    import torch

    from gradassay.harness.strategies.single import unit_gradients

    problem = load_problem(name)
    model = problem.build(torch.float64)
    terms: dict[str, NDArray[np.float64]] = {}
    for unit in range(problem.units):
        for term, gradients in unit_gradients(problem, model, unit).items():
            found = terms.setdefault(term, np.zeros((problem.units, len(problem.parameters), 1024)))
            for place, parameter in enumerate(problem.parameters):
                found[unit, place] = sketch(gradients[parameter.name].flatten().numpy())
    return Truth(problem=problem, terms=terms)


def relative_error(found: NDArray[np.float64], expected: NDArray[np.float64]) -> NDArray[np.float64]:
    """[P]: distance of every row from what was expected, relative to it."""
    return np.linalg.norm(found - expected, axis=1) / np.linalg.norm(expected, axis=1)


def ratio(found: NDArray[np.float64], expected: NDArray[np.float64]) -> NDArray[np.float64]:
    """[P]: projection of every row on what was expected, 1 where they are alike."""
    return (found * expected).sum(1) / (expected * expected).sum(1)


def captured(record: Record) -> NDArray[np.float64]:
    """[P, 1024]: a record's sketches."""
    return record.captures["reduced.1"].sketch
