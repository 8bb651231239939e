from __future__ import annotations

import sys

import pytest
import torch

from gradassay.goldens.errors import UsageError
from gradassay.goldens.layout import Layout
from gradassay.harness.mesh import Ranks
from gradassay.harness.problems import load_problem
from gradassay.harness.strategies import load
from gradassay.harness.strategies.protocol import check_plan
from gradassay.harness.strategies.task import Plan, Task


def plan(layout: str = "dp4", dtype: str = "float32", **options: str) -> Plan:
    return Plan(problem=load_problem("moe-tiny"), layout=Layout.parse(layout), dtype=dtype, options=options)


@pytest.mark.parametrize(
    ("strategy", "refused", "reason"),
    [
        ("accelerate-ddp", plan("dp4.ep2"), "has no expert parallelism of its own"),
        ("accelerate-fsdp2", plan("dp4.ep4"), "has no expert parallelism of its own"),
        ("accelerate-ddp", plan("dp4.replicate2"), "does not run replicate = 2"),
        ("accelerate-fsdp2", plan(comm_hook="fp16"), "has no option 'comm_hook'"),
        ("accelerate-fsdp2", plan(reduce_dtype="fp32"), "reduce_dtype says nothing in float32"),
        ("accelerate-fsdp2", plan(output_dtype="none"), "output_dtype says nothing in float32"),
        ("accelerate-ddp", plan("dp2.accum2", static_graph="true"), "its first backward pass is not reduced"),
    ],
)
def test_what_accelerate_cannot_run_is_refused_before_any_rank(strategy: str, refused: Plan, reason: str) -> None:
    with pytest.raises(UsageError, match=reason) as caught:
        check_plan(load(strategy), refused)
    assert caught.value.hint


@pytest.mark.parametrize(
    ("strategy", "allowed"),
    [
        ("accelerate-ddp", plan("dp2.accum2", static_graph="true", sync_each_batch="true")),
        ("accelerate-ddp", plan("dp2", static_graph="true")),
        ("accelerate-fsdp2", plan("dp4.replicate2.accum3")),
        ("accelerate-fsdp2", plan("dp2", "bfloat16", reduce_dtype="fp32", output_dtype="none")),
    ],
)
def test_what_accelerate_runs_is_not_refused(strategy: str, allowed: Plan) -> None:
    assert check_plan(load(strategy), allowed) is None


def test_without_a_release_it_is_said_how_to_get_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "accelerate", None)
    layout = Layout(dp=1)
    task = Task(plan=plan("dp1"), ranks=Ranks(layout=layout, dp_rank=0), device=torch.device("cpu"))
    with pytest.raises(UsageError, match="accelerate cannot be imported") as caught:
        load("accelerate-ddp").start(task)
    assert "accelerate==" in str(caught.value.hint)
