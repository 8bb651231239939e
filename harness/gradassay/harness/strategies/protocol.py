"""What a strategy is: the machinery that trains a model, step by step, and hands over its local gradient pieces."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from gradassay.goldens.errors import UsageError
from gradassay.goldens.header import Framework
from gradassay.goldens.layout import Layout
from gradassay.harness.capture.piece import Piece
from gradassay.harness.strategies.task import Plan, Task


class Session(Protocol):
    """A model in training on this rank. Pieces are those of the parameters that this rank holds any part of, one each."""

    @property
    def framework(self) -> Framework:
        """What runs the step, and in which release."""

    @property
    def convention(self) -> Mapping[str, Any]:
        """Legitimate conventions that the framework declares, as in a record's header."""

    @property
    def environment(self) -> Mapping[str, Any]:
        """Facts to add to the record's environment."""

    def accumulate(self) -> None:
        """Runs the forward and backward passes of one accumulation window and their reduction."""

    def gradients(self) -> list[Piece]:
        """The reduced gradient, before unscaling, clipping and the optimizer; valid between `accumulate` and `clip`."""

    def weights(self) -> list[Piece]:
        """The values of the trained parameters, of their full-precision masters where there are such, in the same pieces."""

    def clip(self, max_norm: float) -> list[Piece] | None:
        """Clips the total norm, and returns the clipped gradient; None where that happens within `update` only."""

    def update(self) -> None:
        """One step of SGD with the plan's learning rate; afterwards the next window may be accumulated."""


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

    def start(self, task: Task) -> Session:
        """Builds the model and whatever trains it; called on every rank."""


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
