"""The step before the one that is run: the same weights, and every sequence read backwards."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gradassay.goldens.golden import Basis
from gradassay.harness.problems.protocol import Batch, Problem

if TYPE_CHECKING:
    import torch

STEP = 0
"""Its number in a golden; the step that records hold is 1."""


def batch_before(problem: Problem, unit: int, device: torch.device | str = "cpu") -> Batch:
    """The data of `unit` in the step before: as many tokens, each with its own target."""
    batch = problem.batch(unit, device)
    return Batch(inputs=batch.inputs.flip(1), targets=batch.targets.flip(1))


def basis_before(problem: Problem) -> Basis:
    """The gradient of every unit in the step before, in float64: what a golden needs, as step 0, to name `stale`."""
    from gradassay.harness.build.basis import basis_arrays, to_basis

    return to_basis(basis_arrays(problem, [batch_before(problem, unit) for unit in range(problem.units)]))
