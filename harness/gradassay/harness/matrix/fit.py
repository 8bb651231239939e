"""Which cells cannot exist, told without importing torch: the same answers as the strategies' own `check`."""

from __future__ import annotations

from gradassay.goldens.errors import UsageError
from gradassay.harness.cell import Cell
from gradassay.harness.faults import Site, parse_fault
from gradassay.harness.problems import load_problem
from gradassay.harness.strategies.limits import LIMITS, Limits, Replicas


def misfit(cell: Cell) -> str | None:
    """Why no rank could run this cell, in words that many cells share, or None where nothing speaks against it."""
    return _problem(cell) or _strategy(cell)


def fault_misfit(cell: Cell) -> str | None:
    """Why the fault that this cell names cannot be injected here, or None where nothing speaks against it."""
    if not cell.fault:
        return None
    site = Site(problem=load_problem(cell.problem), layout=cell.layout, strategy=cell.strategy, dtype=cell.dtype)
    try:
        parse_fault(cell.fault).check(site)
    except UsageError as error:
        return f"fault {cell.fault}: {error.hint}"
    return None


def _problem(cell: Cell) -> str | None:
    problem, layout = load_problem(cell.problem), cell.layout
    if layout.units > problem.units:
        return f"dp * accum is more than the {problem.units} units of {problem.name}"
    if layout.ep > 1 and problem.experts == 0:
        return f"ep > 1, but {problem.name} has no experts"
    if layout.ep > 1 and problem.experts % layout.ep:
        return f"ep does not divide the {problem.experts} experts of {problem.name}"
    return None


def _strategy(cell: Cell) -> str | None:
    layout, name = cell.layout, cell.strategy
    limits = LIMITS.get(name, Limits())
    if layout.tp * layout.pp * layout.cp > 1:
        return f"{name} does not run tp, pp or cp"
    if not limits.ranks and layout.world > 1:
        return f"{name} runs on one rank"
    if cell.dtype in limits.not_dtypes:
        return f"{name} does not run {cell.dtype}"
    if layout.ep > 1 and not limits.experts:
        return f"{name} does not run ep > 1"
    if limits.replicas is Replicas.ALWAYS and layout.replicate == 1:
        return f"{name} needs replicate > 1"
    if limits.replicas is Replicas.NONE and layout.replicate > 1 and limits.ranks:
        return f"{name} does not run replicate > 1 ({_others(Replicas.ALWAYS)} does)"
    if (layout.dp // layout.replicate) % layout.ep:
        return f"{name}: ep does not divide dp/replicate"
    return None


def _others(replicas: Replicas) -> str:
    return ", ".join(name for name, limits in LIMITS.items() if limits.replicas is replicas)
