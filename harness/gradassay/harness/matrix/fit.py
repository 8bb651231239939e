"""Which cells cannot exist, told without importing torch: the same answers as the strategies' own `check`."""

from __future__ import annotations

from gradassay.goldens.errors import UsageError
from gradassay.harness.cell import Cell
from gradassay.harness.faults import Site, parse_fault
from gradassay.harness.problems import load_problem


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
    if layout.tp * layout.pp * layout.cp > 1:
        return f"{name} does not run tp, pp or cp"
    if name == "single":
        return "single runs on one rank" if layout.world > 1 else None
    if name == "hsdp":
        if layout.replicate == 1:
            return "hsdp needs replicate > 1"
        if (layout.dp // layout.replicate) % layout.ep:
            return "hsdp: ep does not divide dp/replicate"
        return None
    if name == "megatron-fsdp":
        if (layout.dp // layout.replicate) % layout.ep:
            return "megatron-fsdp: ep does not divide dp/replicate"
        return "megatron-fsdp does not run float64" if cell.dtype == "float64" else None
    if layout.replicate > 1:
        return f"{name} does not run replicate > 1 (hsdp does)"
    if name.startswith("deepspeed-") and cell.dtype == "float64":
        return f"{name} does not run float64"
    if name == "deepspeed-zero3" and layout.ep > 1:
        return "deepspeed-zero3 does not run ep > 1"
    return None
