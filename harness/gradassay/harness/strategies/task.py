"""What a rank is given to run: the plan of a step, and this rank's part in it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from gradassay.goldens.layout import Layout
from gradassay.harness.interference import GradientHook, Interference
from gradassay.harness.mesh import Ranks
from gradassay.harness.problems.protocol import Problem

if TYPE_CHECKING:
    from torch.utils.hooks import RemovableHandle


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What to run, known before any rank starts. dtype: a key of gradassay.harness.cell.DTYPES. options: as text.

    learning_rate: of the SGD updates. max_norm: what the total norm of the gradient is clipped to before an update, 0 for
    no clipping.
    """

    problem: Problem
    layout: Layout
    dtype: str = "float32"
    options: Mapping[str, str] = field(default_factory=dict)
    learning_rate: float = 0.0
    max_norm: float = 0.0


@dataclass(slots=True, kw_only=True)
class Task:
    """A plan on one rank. `micro` is the micro step in progress, which hooks on gradients are told.

    ranks: this rank's place and the process groups of the layout. device: where the model runs. observer: sees every
    local gradient before it is accumulated or reduced, as the interference leaves it; it changes nothing.
    """

    plan: Plan
    ranks: Ranks
    device: torch.device
    interference: Interference = field(default_factory=Interference)
    observer: GradientHook | None = None
    micro: int = 0

    @property
    def problem(self) -> Problem:
        """The plan's problem."""
        return self.plan.problem

    @property
    def layout(self) -> Layout:
        """The plan's layout."""
        return self.plan.layout

    def micro_steps(self) -> Iterator[int]:
        """Micro steps in order; the loop must go through this, so that hooks know which one is in progress."""
        for micro in range(self.layout.accum):
            self.micro = micro
            yield micro

    def coefficient(self, micro: int) -> float:
        """c_true of this rank's unit: by how much its mean loss counts in the objective."""
        layout, problem = self.layout, self.problem
        if problem.objective == "unit-mean":
            return 1.0 / layout.units
        total = sum(problem.tokens(unit) for unit in range(layout.units))
        return problem.tokens(layout.unit(self.ranks.dp_rank, micro)) / total

    def losses(self, model: nn.Module, micro: int) -> dict[str, Tensor]:
        """The mean loss of this rank's unit by term, after interference; runs the forward pass."""
        rank = self.ranks.dp_rank
        terms = self.problem.losses(model, self.problem.batch(self.layout.unit(rank, micro), self.device))
        return terms if self.interference.terms is None else self.interference.terms(terms, rank, micro)

    def loss(self, model: nn.Module, micro: int) -> Tensor:
        """What to call backward on where gradients are summed over micro steps and averaged over dp ranks:
        the unit's mean loss times c_true * dp (1/accum for unit-mean).
        """
        loss = torch.stack(list(self.losses(model, micro).values())).sum()
        return loss * (self.coefficient(micro) * self.layout.dp)

    @property
    def watches(self) -> bool:
        """Whether anybody wants to see local gradients."""
        return self.interference.gradient is not None or self.observer is not None

    def watch(self, named: Iterable[tuple[str, Tensor]]) -> list[RemovableHandle]:
        """Hooks the tensors that autograd sees, by canonical name, for the interference and the observer."""
        if not self.watches:
            return []
        return [tensor.register_hook(self._hook(name)) for name, tensor in named if tensor.requires_grad]

    def _hook(self, name: str) -> Any:
        def hook(gradient: Tensor) -> Tensor | None:
            changed = None
            if self.interference.gradient is not None:
                changed = self.interference.gradient(name, self.ranks.dp_rank, self.micro, gradient)
            if self.observer is not None:
                self.observer(name, self.ranks.dp_rank, self.micro, gradient if changed is None else changed)
            return changed

        return hook
