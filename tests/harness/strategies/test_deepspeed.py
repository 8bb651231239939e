from __future__ import annotations

import sys

import pytest
import torch

from gradassay.goldens.errors import MissingExtra, UsageError
from gradassay.goldens.layout import Layout
from gradassay.harness.mesh import Ranks
from gradassay.harness.problems import load_problem
from gradassay.harness.strategies import load
from gradassay.harness.strategies.protocol import Plan, Task, check_plan


def plan(problem: str = "moe-tiny", layout: str = "dp4", dtype: str = "float32", **options: str) -> Plan:
    return Plan(problem=load_problem(problem), layout=Layout.parse(layout), dtype=dtype, options=options)


@pytest.mark.parametrize(
    ("strategy", "refused", "reason"),
    [
        ("deepspeed-zero3", plan(layout="dp4.ep2"), "MoE layer refuses ZeRO stage 3"),
        ("deepspeed-zero1", plan(dtype="float64"), "does not run dtype float64"),
        ("deepspeed-zero1", plan(layout="dp4.replicate2"), "does not run replicate = 2"),
        ("deepspeed-zero1", plan(reduce_scatter="false"), "refuses reduce_scatter = false with mixture-of-experts"),
        ("deepspeed-zero2", plan(contiguous_gradients="false"), "refuses contiguous_gradients = false"),
        ("deepspeed-zero2", plan("dense-tiny", prescale_gradients="true"), "together with reduce_scatter = true"),
        ("deepspeed-zero3", plan("dense-tiny", gradient_predivide_factor="2.0"), "gradient_predivide_factor = 2.0"),
        ("deepspeed-zero0", plan(overlap_comm="true"), "has no option 'overlap_comm'"),
        ("deepspeed-zero1", plan(overlap_comm="yes"), "overlap_comm = 'yes'"),
        ("deepspeed-zero1", plan(layout="dp10.ep5"), "ep = 5 does not divide the 12 experts"),
    ],
)
def test_what_deepspeed_refuses_is_refused_before_any_rank(strategy: str, refused: Plan, reason: str) -> None:
    with pytest.raises(UsageError, match=reason) as caught:
        check_plan(load(strategy), refused)
    assert caught.value.hint


@pytest.mark.parametrize(
    ("strategy", "accepted"),
    [
        ("deepspeed-zero0", plan(layout="dp6.ep3.accum4", dtype="bfloat16")),
        ("deepspeed-zero1", plan(contiguous_gradients="false")),
        ("deepspeed-zero2", plan("dense-tiny", prescale_gradients="true", reduce_scatter="false")),
        ("deepspeed-zero3", plan("moe-tiny", "dp4.accum6")),
    ],
)
def test_what_deepspeed_runs_is_accepted(strategy: str, accepted: Plan) -> None:
    check_plan(load(strategy), accepted)


def test_options_reach_the_configuration() -> None:
    wanted = plan("dense-tiny", "dp4.accum3", "bfloat16", overlap_comm="true", communication_data_type="bf16")
    configuration = load("deepspeed-zero2").configuration(wanted)  # type: ignore[attr-defined]
    assert configuration["gradient_accumulation_steps"] == 3
    assert configuration["gradient_clipping"] == 0.0
    assert configuration["bf16"] == {"enabled": True}
    assert configuration["communication_data_type"] == "bf16"
    assert configuration["zero_optimization"] == {
        "stage": 2,
        "reduce_scatter": True,
        "overlap_comm": True,
        "contiguous_gradients": True,
    }


def test_without_deepspeed_the_extra_or_a_release_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "deepspeed", None)
    monkeypatch.delitem(sys.modules, "gradassay.harness.strategies.deepspeed_module", raising=False)
    layout = Layout(dp=1)
    task = Task(plan=plan(layout="dp1"), ranks=Ranks(layout=layout, dp_rank=0), device=torch.device("cpu"))
    with pytest.raises(MissingExtra, match="needs deepspeed, which is not installed") as caught:
        load("deepspeed-zero0").start(task)
    assert caught.value.hint.startswith("pip install 'gradassay[deepspeed]'")
    assert "deepspeed==0.15.3" in caught.value.hint
