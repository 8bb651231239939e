from __future__ import annotations

import sys
from types import SimpleNamespace

import pytest
import torch
from torch import nn

from gradassay.goldens.errors import UsageError
from gradassay.goldens.layout import Layout
from gradassay.harness.mesh import Ranks
from gradassay.harness.problems import load_problem
from gradassay.harness.strategies import load
from gradassay.harness.strategies.protocol import check_plan
from gradassay.harness.strategies.task import Plan, Task
from gradassay.harness.strategies.torchtitan_model import build_decoder
from gradassay.harness.strategies.torchtitan_wrapping import shard


def plan(layout: str = "dp4", problem: str = "moe-tiny", max_norm: float = 0.0, **options: str) -> Plan:
    return Plan(problem=load_problem(problem), layout=Layout.parse(layout), max_norm=max_norm, options=options)


def task(problem: str = "moe-tiny", layout: str = "dp1") -> Task:
    ranks = Ranks(layout=Layout.parse(layout), dp_rank=0)
    return Task(plan=plan(layout, problem), ranks=ranks, device=torch.device("cpu"))


@pytest.mark.parametrize(
    ("strategy", "refused", "reason"),
    [
        ("torchtitan-ddp", plan("dp4.ep2"), "has no expert parallelism of its own"),
        ("torchtitan-ddp", plan("dp4.replicate2"), "does not run replicate = 2"),
        ("torchtitan-ddp", plan(reshard="never"), "has no option 'reshard'"),
        ("torchtitan-fsdp2", plan("dp4.ep4.replicate2"), r"does not divide dp/replicate = 2"),
        ("torchtitan-fsdp2", plan("dp4.ep2", max_norm=1.0), "clips experts that are one sharded tensor"),
        ("torchtitan-fsdp2", plan(loss="sum"), "loss = 'sum'"),
    ],
)
def test_what_torchtitan_cannot_run_is_refused_before_any_rank(strategy: str, refused: Plan, reason: str) -> None:
    with pytest.raises(UsageError, match=reason) as caught:
        check_plan(load(strategy), refused)
    assert caught.value.hint


@pytest.mark.parametrize(
    ("strategy", "allowed"),
    [
        ("torchtitan-ddp", plan("dp4.accum3", max_norm=1.0, loss="trainer")),
        ("torchtitan-fsdp2", plan("dp4.ep2.replicate2", reshard="always")),
        ("torchtitan-fsdp2", plan("dp4", max_norm=1.0)),
    ],
)
def test_what_torchtitan_runs_is_not_refused(strategy: str, allowed: Plan) -> None:
    assert check_plan(load(strategy), allowed) is None


@pytest.mark.parametrize("problem", ["dense-tiny", "moe-tiny", "ragged-tiny"])
def test_decoder_has_torchtitans_names_beside_its_own(problem: str) -> None:
    given = task(problem)
    model = build_decoder(given)
    reference = given.problem.build(torch.float32)
    assert {name for name, _ in model.named_parameters()} == {name for name, _ in reference.named_parameters()}
    attributes = vars(model)
    assert attributes["tok_embeddings"] is model.get_submodule("embedding")
    assert attributes["enable_weight_tying"] == (problem == "ragged-tiny")
    assert (attributes["lm_head"] is None) == (problem == "ragged-tiny")
    blocks = given.problem.blocks(model)
    layers = model.get_submodule("layers")
    assert list(layers.items()) == [(str(number), block) for number, block in enumerate(blocks)]
    for block, experts in zip(blocks, given.problem.expert_modules(model), strict=False):
        assert vars(block)["moe_enabled"]
        assert vars(block.get_submodule("moe"))["routed_experts"].inner_experts is experts
        assert vars(experts)["num_experts"] == given.problem.experts


def test_decoder_computes_what_the_problem_does() -> None:
    given = task()
    ours, reference = build_decoder(given), given.problem.build(torch.float32)
    batch = given.problem.batch(0)
    assert given.problem.losses(ours, batch) == given.problem.losses(reference, batch)


def test_a_model_of_another_kind_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    given = task()
    monkeypatch.setattr(type(given.problem), "build", lambda *_, **__: nn.Linear(2, 2))
    with pytest.raises(UsageError, match="the model of moe-tiny is a Linear"):
        build_decoder(given)


def test_tied_weights_are_refused_where_the_release_frees_them() -> None:
    given = task("ragged-tiny", "dp2")
    model = build_decoder(given)
    library = SimpleNamespace(newest=False, version="0.2.2")
    with pytest.raises(UsageError, match="frees the embedding of ragged-tiny"):
        shard(library, given, model, reshard="default")


def test_without_a_release_it_is_said_how_to_get_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "gradassay.harness.strategies.torchtitan_module", None)
    with pytest.raises(UsageError, match="torchtitan cannot be imported") as caught:
        load("torchtitan-fsdp2").start(task())
    assert "torchtitan==" in str(caught.value.hint)
