"""The step before the one that is run: the same weights, and every sequence read backwards."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from gradassay.goldens.golden import Golden
from gradassay.harness.problems.protocol import Batch, Problem

if TYPE_CHECKING:
    import torch

STEP = 0
"""Its number in a golden; the step that records hold is 1."""


def batch_before(problem: Problem, unit: int, device: torch.device | str = "cpu") -> Batch:
    """The data of `unit` in the step before: as many tokens, each with its own target."""
    batch = problem.batch(unit, device)
    return Batch(inputs=batch.inputs.flip(1), targets=batch.targets.flip(1))


def with_step_before(golden: Golden, problem: Problem) -> Golden:
    """The golden with every unit's gradient in the step before as its step 0, in float64: what it takes to name `stale`."""
    import torch

    from gradassay.harness.build.basis import basis_arrays, to_basis

    batches = [batch_before(problem, unit) for unit in range(len(golden.header.units))]
    model = problem.build(torch.float64)
    return replace(golden, bases={STEP: to_basis(basis_arrays(problem, model, batches)), **golden.bases})
