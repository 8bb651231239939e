"""What a strategy is: the machinery that runs one step and hands over its local gradient pieces."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

import torch
from torch import Tensor, nn

from gradassay.goldens.errors import UsageError
from gradassay.goldens.header import Framework
from gradassay.goldens.layout import Layout
from gradassay.harness.capture.piece import Piece
from gradassay.harness.interference import Interference
from gradassay.harness.mesh import Ranks
from gradassay.harness.problems.protocol import Problem

if TYPE_CHECKING:
    from torch.utils.hooks import RemovableHandle


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What to run, known before any rank starts. dtype: a key of gradassay.harness.cell.DTYPES. options: as text."""

    problem: Problem
    layout: Layout
    dtype: str = "float32"
    options: Mapping[str, str] = field(default_factory=dict)


@dataclass(slots=True, kw_only=True)
class Task:
    """A plan on one rank. `micro` is the micro step in progress, which hooks on gradients are told.

    ranks: this rank's place and the process groups of the layout. device: where the model runs.
    """

    plan: Plan
    ranks: Ranks
    device: torch.device
    interference: Interference = field(default_factory=Interference)
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

    def watch(self, named: Iterable[tuple[str, Tensor]]) -> list[RemovableHandle]:
        """Puts the interference's gradient hook on the tensors that autograd sees, by canonical name."""
        if self.interference.gradient is None:
            return []
        return [tensor.register_hook(self._hook(name)) for name, tensor in named if tensor.requires_grad]

    def _hook(self, name: str) -> Any:
        def hook(gradient: Tensor) -> Tensor | None:
            assert self.interference.gradient is not None
            return self.interference.gradient(name, self.ranks.dp_rank, self.micro, gradient)

        return hook


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What this rank holds after the step's reduction, before unscaling, clipping and the optimizer.

    pieces: at most one for each parameter that this rank holds any part of. convention: legitimate conventions that
    the framework declares, as in a record's header. environment: facts to add to the record's environment.
    """

    pieces: list[Piece]
    framework: Framework
    convention: Mapping[str, Any] = field(default_factory=dict)
    environment: Mapping[str, Any] = field(default_factory=dict)


class Strategy(Protocol):
    """One way to run a step; made without arguments by `strategies.load(name)`."""

    @property
    def name(self) -> str:
        """The name by which matrices refer to it."""

    @property
    def options(self) -> Mapping[str, tuple[str, ...]]:
        """Options it understands with the values they may take, the default first."""

    def check(self, plan: Plan) -> None:
        """Raises UsageError, with what to do instead, where this strategy cannot run `plan`; touches no rank."""

    def run(self, task: Task) -> Outcome:
        """Builds the model, runs the step's micro-batches and their reduction; called on every rank."""


def check_plan(strategy: Strategy, plan: Plan) -> None:
    """What holds for every strategy: sizes that fit the problem, known options; then the strategy's own `check`."""
    problem, layout = plan.problem, plan.layout
    if layout.units > problem.units:
        raise UsageError(
            f"{problem.name} has {problem.units} units; layout {layout} needs dp * accum = {layout.units}",
            hint="use fewer ranks or micro-batches, or a problem with more units",
        )
    if layout.ep > 1 and (problem.experts == 0 or problem.experts % layout.ep):
        raise UsageError(
            f"ep = {layout.ep} does not divide the {problem.experts} experts of {problem.name}",
            hint="use ep = 1" if problem.experts == 0 else f"choose ep from the divisors of {problem.experts}",
        )
    for key, value in plan.options.items():
        allowed = strategy.options.get(key)
        if allowed is None:
            known = ", ".join(strategy.options) or "none"
            raise UsageError(f"{strategy.name} has no option {key!r}", hint=f"it understands: {known}")
        if value not in allowed:
            raise UsageError(f"{strategy.name}: {key} = {value!r}", hint=f"choose from {', '.join(allowed)}")
    strategy.check(plan)


def option(strategy: Strategy, plan: Plan, key: str) -> str:
    """The plan's value of an option, or the strategy's default."""
    return plan.options.get(key, strategy.options[key][0])


def only_data_parallel(strategy: Strategy, layout: Layout, *, replicas: bool = False) -> None:
    """Raises UsageError for tp, pp or cp above 1, and for replicate above 1 unless `replicas`."""
    for size in ("tp", "pp", "cp") if replicas else ("tp", "pp", "cp", "replicate"):
        if getattr(layout, size) > 1:
            raise UsageError(
                f"{strategy.name} does not run {size} = {getattr(layout, size)}",
                hint=f"use {size} = 1" + (", or strategy hsdp" if size == "replicate" else ""),
            )
