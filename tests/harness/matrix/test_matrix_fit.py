"""Cells that cannot exist: the answers without torch are those of the strategies themselves."""

from __future__ import annotations

from itertools import product
from pathlib import Path

from gradassay.goldens.errors import UsageError
from gradassay.goldens.layout import Layout
from gradassay.harness.cell import DTYPES, Cell
from gradassay.harness.matrix import misfit, parse_matrix
from gradassay.harness.problems import load_problem
from gradassay.harness.strategies import STRATEGIES, load
from gradassay.harness.strategies.protocol import Plan, check_plan

# Replicas are for Megatron-Core's distributed optimizer.
NEEDED = {"megatron-ddp": {"use_distributed_optimizer": "true"}}


def _layouts() -> list[Layout]:
    layouts = []
    for dp, ep, tp, replicate, accum in product((1, 2, 4, 5, 10), (1, 2, 5), (1, 2), (1, 2), (1, 3, 13)):
        if dp % ep == 0 and dp % replicate == 0:
            layouts.append(Layout(dp=dp, ep=ep, tp=tp, replicate=replicate, accum=accum))
    return layouts


def test_agrees_with_what_strategies_say() -> None:
    wrong, refused, possible = [], 0, 0
    for problem, name, layout, dtype in product(("dense-tiny", "moe-tiny"), STRATEGIES, _layouts(), DTYPES):
        options = NEEDED.get(name, {})
        cell = Cell(problem=problem, strategy=name, layout=layout, dtype=dtype, options=options)
        try:
            check_plan(load(name), Plan(problem=load_problem(problem), layout=layout, dtype=dtype, options=options))
            runs = True
        except UsageError:
            runs = False
        if runs != (misfit(cell) is None):
            wrong.append(str(cell))
        refused, possible = refused + (not runs), possible + runs
    assert wrong == []
    assert min(refused, possible) > 100


def test_a_fault_is_left_out_where_it_cannot_be_injected() -> None:
    text = """[[matrix]]
problems = "moe-tiny"
strategies = ["ddp", "zero1"]
faults = ["linear", "rank-disagreement"]
dp = 2
accum = [1, 2]
"""
    matrix = parse_matrix(text, Path("m.toml"))
    kept = [(cell.strategy, cell.fault, cell.layout.accum) for cell in matrix.cells]
    assert kept == [
        ("ddp", "linear", 2),
        ("ddp", "rank-disagreement", 1),
        ("ddp", "rank-disagreement", 2),
        ("zero1", "linear", 2),
    ]
    assert sum(matrix.skipped.values()) == 4
    assert matrix.skipped["fault linear: needs accum > 1"] == 2
