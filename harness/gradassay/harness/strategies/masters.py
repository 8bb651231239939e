"""A model with full-precision parameters that computes in the run's element type."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.func import functional_call

from gradassay.harness.parallel import ExpertParallel
from gradassay.harness.strategies.task import Task


class LowPrecision(nn.Module):
    """Runs `model` on a low-precision copy of its parameters, made in every forward pass.

    The gradient of one micro-batch is computed in the low precision, and accumulated and reduced in that of the
    parameters: what Megatron-LM's `main_grad` and DDP's own `mixed_precision` do.
    """

    def __init__(self, model: nn.Module, dtype: torch.dtype) -> None:
        super().__init__()
        self.model, self.dtype = model, dtype

    def forward(self, *inputs: Any) -> Any:
        """What `model` gives for `inputs`."""
        copies = {name: parameter.to(self.dtype) for name, parameter in self.model.named_parameters()}
        return functional_call(self.model, copies, inputs)


@dataclass(frozen=True, slots=True, kw_only=True)
class Masters:
    """module: what to train. trained: its trained parameters by canonical name. experts: names of expert parameters."""

    module: nn.Module
    trained: dict[str, nn.Parameter]
    experts: frozenset[str]


def build_masters(task: Task) -> Masters:
    """The task's model with float32 parameters (float64 in a float64 run), watched by the task's interference."""
    double = task.plan.dtype == "float64"
    model = task.problem.build(
        torch.float64 if double else torch.float32,
        device=task.device,
        experts=ExpertParallel.of(task.ranks),
    )
    trained = {name: parameter for name, parameter in model.named_parameters() if parameter.requires_grad}
    held = {id(parameter) for module in task.problem.expert_modules(model) for parameter in module.parameters()}
    experts = frozenset(name for name, parameter in trained.items() if id(parameter) in held)
    task.watch(trained.items())
    module = LowPrecision(model, torch.bfloat16) if task.plan.dtype == "bfloat16" else model
    return Masters(module=module, trained=trained, experts=experts)
