"""One process: in float64 the truth itself."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from gradassay.goldens.errors import UsageError
from gradassay.goldens.header import Framework
from gradassay.harness.capture.piece import whole
from gradassay.harness.problems.protocol import Batch, Problem
from gradassay.harness.strategies.masters import build_masters
from gradassay.harness.strategies.protocol import Outcome, Plan, Task


class Single:
    """Every unit one after the other on one rank, gradients added up by autograd."""

    name = "single"
    options: Mapping[str, tuple[str, ...]] = {}

    def check(self, plan: Plan) -> None:
        """Raises UsageError for more than one rank."""
        if plan.layout.world > 1:
            raise UsageError(
                f"single runs on one rank; layout {plan.layout} has {plan.layout.world}",
                hint=f"use dp = 1 and accum = {plan.layout.units} for the same units",
            )

    def run(self, task: Task) -> Outcome:
        """The accumulated gradient."""
        masters = build_masters(task)
        for micro in task.micro_steps():
            task.loss(masters.module, micro).backward()
        pieces = [whole(name, parameter.grad, numel=parameter.numel()) for name, parameter in masters.trained.items()]
        return Outcome(pieces=pieces, framework=Framework(name="torch", version=torch.__version__))


def unit_gradients(problem: Problem, model: nn.Module, unit: int) -> dict[str, dict[str, Tensor]]:
    """The gradient of one unit's mean loss alone: term -> canonical name -> gradient shaped as the parameter.

    model: `problem.build(torch.float64)` for the truth; may be used for one unit after another. A parameter that a term
    does not reach has zeros.
    """
    device = next(model.parameters()).device
    return batch_gradients(problem, model, problem.batch(unit, device))


def batch_gradients(problem: Problem, model: nn.Module, batch: Batch) -> dict[str, dict[str, Tensor]]:
    """The gradient of the mean loss of `batch`, as `unit_gradients` of a unit."""
    names, parameters = zip(*((n, p) for n, p in model.named_parameters() if p.requires_grad), strict=True)
    terms = problem.losses(model, batch)
    found = {}
    for term, loss in terms.items():
        gradients = torch.autograd.grad(loss, parameters, retain_graph=True, allow_unused=True)
        found[term] = {
            name: torch.zeros_like(parameter) if gradient is None else gradient
            for name, parameter, gradient in zip(names, parameters, gradients, strict=True)
        }
    return found
