from __future__ import annotations

import sys
import threading
from collections.abc import Callable

import pytest
import torch

from gradassay.goldens.errors import UsageError
from gradassay.goldens.layout import Layout
from gradassay.harness.mesh import Ranks
from gradassay.harness.problems import load_problem
from gradassay.harness.strategies import load
from gradassay.harness.strategies.lightning_turns import Turns
from gradassay.harness.strategies.protocol import check_plan
from gradassay.harness.strategies.task import Plan, Task


def plan(layout: str = "dp4", dtype: str = "float32", **options: str) -> Plan:
    return Plan(problem=load_problem("moe-tiny"), layout=Layout.parse(layout), dtype=dtype, options=options)


@pytest.mark.parametrize(
    ("strategy", "refused", "reason"),
    [
        ("lightning-ddp", plan("dp4.ep2"), "has no expert parallelism of its own"),
        ("lightning-fsdp2", plan("dp4.replicate2"), "does not run replicate = 2"),
        ("lightning-ddp", plan(precision="bf16-true"), "is of bfloat16 runs, this one is float32"),
        ("lightning-ddp", plan(dtype="bfloat16", precision="policy"), "precision = 'policy'"),
        ("lightning-ddp", plan("dp2.accum2", static_graph="true"), "its first backward pass is not reduced"),
        ("lightning-fsdp2", plan(dtype="float64"), "does not run float64"),
    ],
)
def test_what_lightning_cannot_run_is_refused_before_any_rank(strategy: str, refused: Plan, reason: str) -> None:
    with pytest.raises(UsageError, match=reason) as caught:
        check_plan(load(strategy), refused)
    assert caught.value.hint


def test_without_a_release_it_is_said_how_to_get_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "lightning", None)
    layout = Layout(dp=1)
    task = Task(plan=plan("dp1"), ranks=Ranks(layout=layout, dp_rank=0), device=torch.device("cpu"))
    with pytest.raises(UsageError, match="lightning cannot be imported") as caught:
        load("lightning-ddp").start(task)
    assert "lightning==" in str(caught.value.hint)


def test_turns_are_taken_one_at_a_time() -> None:
    said: list[str] = []

    def speak(pause: Callable[[str], None]) -> None:
        for number in range(2):
            for place in ("first", "second"):
                said.append(f"{place} {number}")
                pause(place)

    turns = Turns(speak)
    assert said == []
    turns.until("first")
    assert said == ["first 0"]
    turns.until("second")
    assert said == ["first 0", "second 0"]
    turns.until("second")
    assert said == ["first 0", "second 0", "first 1", "second 1"], "what is not waited for is passed"


def test_turns_raise_what_the_function_raises() -> None:
    def fail(pause: Callable[[str], None]) -> None:
        pause("start")
        raise ValueError("from within")

    turns = Turns(fail)
    turns.until("start")
    with pytest.raises(ValueError, match="from within"):
        turns.until("end")


def test_turns_of_a_function_that_ends_early_are_an_error() -> None:
    def end(pause: Callable[[str], None]) -> None:
        pause("start")

    with pytest.raises(RuntimeError, match="ended before"):
        Turns(end).until("finish")


def test_a_function_left_at_a_pause_keeps_no_process_from_ending() -> None:
    def stay(pause: Callable[[str], None]) -> None:
        pause("here")

    before = set(threading.enumerate())
    Turns(stay).until("here")
    (left,) = set(threading.enumerate()) - before
    assert left.daemon
