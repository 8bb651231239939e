"""One process: in float64 the truth itself."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from gradassay.goldens.errors import UsageError
from gradassay.harness.problems.protocol import Batch, Problem
from gradassay.harness.strategies.masters import build_masters
from gradassay.harness.strategies.replicated import Replicated
from gradassay.harness.strategies.task import Plan, Task


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

    def start(self, task: Task) -> Replicated:
        """Training on this rank alone."""
        masters = build_masters(task)

        def backward() -> None:
            for micro in task.micro_steps():
                task.loss(masters.module, micro).backward()

        return Replicated(
            task=task,
            masters=masters,
            backward=backward,
            held=dict.fromkeys(masters.trained, 0),
            optimizer=torch.optim.SGD(masters.trained.values(), lr=task.plan.learning_rate),
        )


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
