"""Every choice of expert is decided by design, and both frameworks' auxiliary losses are the same function."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from gradassay.harness.problems import load_problem
from gradassay.harness.problems.moe import RoutedExperts
from gradassay.harness.strategies.masters import LowPrecision

EXPERTS = 12


def _logits(model: torch.nn.Module, runner: torch.nn.Module, problem, unit: int) -> list[torch.Tensor]:
    """Float32 router logits [tokens, experts] of every layer for one unit."""
    seen: list[torch.Tensor] = []

    def look(module: RoutedExperts, inputs: tuple[torch.Tensor, ...]) -> None:
        rows = inputs[0].reshape(-1, inputs[0].shape[-1]).float()
        seen.append((rows @ module.router.weight.float().T).detach())

    handles = [part.register_forward_pre_hook(look) for part in model.modules() if isinstance(part, RoutedExperts)]
    with torch.no_grad():
        problem.losses(runner, problem.batch(unit))
    for handle in handles:
        handle.remove()
    return seen


@pytest.mark.parametrize(("name", "units"), [("moe-tiny", range(24)), ("moe-small", range(2))])
def test_choices_are_decided_by_wide_margins(name, units):
    problem = load_problem(name)
    model = problem.build(torch.float32)
    low = LowPrecision(model, torch.bfloat16)
    for unit in units:
        routes, tokens = problem.routes, problem.batch(unit).inputs.flatten().numpy()
        full, rounded = _logits(model, model, problem, unit), _logits(model, low, problem, unit)
        assert len(full) == problem.shape.layers
        for logits, bf16 in zip(full, rounded, strict=True):
            ordered, choices = logits.sort(dim=1, descending=True)
            assert (choices[:, 0].numpy() == routes.first[tokens]).all()
            assert (choices[:, 1].numpy() == routes.second[tokens]).all()
            margin = float((ordered[:, :2] - ordered[:, 1:3]).min())
            assert margin > 0.25
            assert float((bf16 - logits).abs().max()) < margin / 5, "rounding stays far from every margin"


def test_first_and_second_choices_are_as_many_on_every_expert():
    problem = load_problem("moe-tiny")
    reached = []
    for unit in range(problem.units):
        tokens = problem.batch(unit).inputs.flatten().numpy()
        first = np.bincount(problem.routes.first[tokens], minlength=EXPERTS)
        second = np.bincount(problem.routes.second[tokens], minlength=EXPERTS)
        assert (first == second).all()
        reached.append(first > 0)
    assert reached[0].all(), "unit 0 reaches every expert"
    assert not np.array(reached[1:]).all(axis=1).any(), "every other unit leaves some expert without tokens"
    assert np.array(reached[1:]).any(axis=0).all()


def test_both_definitions_of_the_auxiliary_loss_agree_with_ours():
    problem = load_problem("moe-tiny")
    model = problem.build(torch.float64)
    part = next(module for module in model.modules() if isinstance(module, RoutedExperts))
    hidden = torch.nn.functional.layer_norm(model.embedding(problem.batch(1).inputs), (problem.shape.hidden,)).flatten(
        0, 1
    )
    logits = hidden @ part.router.weight.T
    shares = logits.softmax(-1).mean(0)
    chosen = torch.nn.functional.one_hot(logits.topk(2).indices, EXPERTS).double()
    first_choices = (shares * chosen[:, 0].mean(0)).mean() * EXPERTS**2
    all_choices = EXPERTS * (shares * chosen.sum(1).sum(0)).sum() / (2 * len(logits))
    ours = part(hidden)[1]
    assert torch.allclose(first_choices, all_choices, rtol=1e-12)
    assert torch.allclose(first_choices, ours, rtol=1e-12)
    # Without the design of the data the two are different functions.
    odd = hidden[:7]
    odd_shares, odd_chosen = logits[:7].softmax(-1).mean(0), chosen[:7]
    odd_first = (odd_shares * odd_chosen[:, 0].mean(0)).sum()
    odd_all = (odd_shares * odd_chosen.mean((0, 1))).sum()
    assert len(odd) == 7
    assert not torch.allclose(odd_first, odd_all, rtol=1e-3)


def test_routed_part_is_the_weighted_sum_of_its_experts():
    problem = load_problem("moe-tiny")
    model = problem.build(torch.float64)
    part = next(module for module in model.modules() if isinstance(module, RoutedExperts))
    hidden = torch.linspace(-1, 1, 5 * problem.shape.hidden, dtype=torch.float64).reshape(5, -1).sin()
    gates, choices = (hidden @ part.router.weight.T).softmax(-1).topk(2)
    gates = gates / gates.sum(-1, keepdim=True)
    expected = torch.stack(
        [
            sum(gate * part.experts[str(int(expert))](row) for gate, expert in zip(*pair, strict=True))
            for row, pair in zip(hidden, zip(gates, choices, strict=True), strict=True)
        ]
    )
    assert torch.allclose(part(hidden)[0], expected, rtol=1e-12)
