"""A problem of four functions is as deterministic as ours, and runs through strategies and a Recorder."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import nn

from gradassay.goldens.errors import UsageError
from gradassay.harness import Layout, ModuleProblem, Recorder
from gradassay.harness.problems.module import ModuleProblem as Same


def _model() -> nn.Module:
    return nn.Sequential(nn.Linear(6, 40), nn.GELU(), nn.LayerNorm(40), nn.Linear(40, 3))


def _batch(unit: int) -> dict[str, torch.Tensor]:
    random = torch.Generator().manual_seed(unit)
    return {"inputs": torch.randn(8, 6, generator=random), "targets": torch.randint(3, (8,), generator=random)}


def _loss(model: nn.Module, data: dict[str, torch.Tensor]) -> torch.Tensor:
    return nn.functional.cross_entropy(model(data["inputs"]), data["targets"])


PROBLEM = ModuleProblem(name="mine", model=_model, batches=_batch, loss=_loss, units=4)


def test_its_parameters_and_families():
    assert Same is ModuleProblem
    families = {parameter.name: parameter.family for parameter in PROBLEM.parameters}
    assert families == {
        "0.weight": "dense",
        "0.bias": "bias",
        "2.weight": "norm",
        "2.bias": "bias",
        "3.weight": "dense",
        "3.bias": "bias",
    }
    named = replace(PROBLEM, families={"2.bias": "norm"})
    assert {parameter.name: parameter.family for parameter in named.parameters}["2.bias"] == "norm"
    with pytest.raises(UsageError, match=r"families for 9\.bias, which the model does not have"):
        assert replace(PROBLEM, families={"9.bias": "norm"}).parameters


def test_its_digest_is_of_weights_data_and_version_alone():
    torch.manual_seed(123)
    again = replace(PROBLEM)
    assert again.digest == PROBLEM.digest
    assert torch.initial_seed() == 123, "the caller's random numbers are left alone"
    for other in (
        replace(PROBLEM, seed=1),
        replace(PROBLEM, version=2),
        replace(PROBLEM, batches=lambda unit: _batch(unit + 1)),
        replace(PROBLEM, tokens_of=lambda _unit: 8),
    ):
        assert other.digest != PROBLEM.digest


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_it_runs_in_every_element_type_from_the_same_weights(dtype: torch.dtype):
    model = PROBLEM.build(dtype)
    for name, parameter in model.named_parameters():
        assert parameter.dtype == dtype
        assert torch.equal(parameter.float(), torch.from_numpy(PROBLEM.weights()[name]))
    losses = PROBLEM.losses(model, PROBLEM.batch(0))
    assert losses["main"].dtype == (torch.float64 if dtype == torch.float64 else torch.float32)
    expected = PROBLEM.losses(PROBLEM.build(torch.float64), PROBLEM.batch(0))["main"]
    assert losses["main"].item() == pytest.approx(expected.item(), rel=2e-2)


def test_a_recorder_takes_it():
    model, layout = PROBLEM.build(torch.float32), Layout(accum=2)
    recorder = Recorder(PROBLEM, layout)
    for unit in range(2):
        (PROBLEM.losses(model, PROBLEM.batch(unit))["main"] / 2).backward()
    recorder.capture(model)
    record = recorder.record()
    assert (record.header.problem.name, record.header.problem.digest) == ("mine", PROBLEM.digest)
    assert record.captures["reduced.1"].present.all()
