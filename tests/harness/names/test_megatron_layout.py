"""A gradient that autograd gives for Megatron's fused and padded tensors, mapped back to the problem's."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch.func import functional_call

from gradassay.harness import load_problem
from gradassay.harness.capture.piece import whole
from gradassay.harness.names import NameMap
from name_shards import assembled


def test_a_gradient_through_megatrons_layout() -> None:
    """The problem's model computes with weights taken out of Megatron's tensors as Megatron does it: autograd then says
    what the gradients of those tensors are.
    """
    problem, groups = load_problem("dense-tiny"), 4
    model = problem.build(torch.float64)
    loss = sum(problem.losses(model, problem.batch(0)).values())
    loss.backward()
    expected = {name: parameter.grad for name, parameter in model.named_parameters()}
    weights = {name: parameter.detach() for name, parameter in model.named_parameters()}
    own, use = _megatron_tensors(weights, groups)

    class Substituted(torch.nn.Module):
        def forward(self, *inputs: torch.Tensor) -> object:
            return functional_call(model, use(), inputs)

    sum(problem.losses(Substituted(), problem.batch(0)).values()).backward()
    pieces = [whole(name, tensor.grad, numel=tensor.numel()) for name, tensor in own.items()]
    shapes = {name: tuple(tensor.shape) for name, tensor in own.items()}
    names = NameMap.shipped("megatron", values={"query_groups": groups})
    found = assembled(names.canonical(pieces, shapes, problem.parameters), problem.parameters)
    for name, values in found.items():
        assert torch.allclose(values, expected[name], rtol=1e-9, atol=1e-15), name
    wrong = NameMap.shipped("megatron", values={"query_groups": 2})
    twisted = assembled(wrong.canonical(pieces, shapes, problem.parameters), problem.parameters)
    assert not torch.allclose(twisted["layers.0.attention.key.weight"], expected["layers.0.attention.key.weight"])


def _megatron_tensors(
    weights: dict[str, torch.Tensor], groups: int
) -> tuple[dict[str, torch.Tensor], Callable[[], dict[str, torch.Tensor]]]:
    """Leaves as Megatron has them, and the problem's weights as its attention splits them off."""
    own: dict[str, torch.Tensor] = {}
    takers: dict[str, Callable[[], torch.Tensor]] = {}

    def leaf(name: str, values: torch.Tensor) -> torch.Tensor:
        own[name] = values.clone().requires_grad_(True)
        return own[name]

    def same(name: str, canonical: str) -> None:
        tensor = leaf(name, weights[canonical])
        takers[canonical] = lambda: tensor

    def padded(name: str, canonical: str) -> None:
        values = weights[canonical]
        tensor = leaf(name, torch.cat([values, torch.ones(32, values.shape[1], dtype=values.dtype)]))
        takers[canonical] = lambda: tensor[: len(values)]

    padded("embedding.word_embeddings.weight", "embedding.weight")
    padded("output_layer.weight", "head.weight")
    same("embedding.position_embeddings.weight", "position.weight")
    for layer in range(2):
        mine, theirs = f"layers.{layer}", f"decoder.layers.{layer}"
        for part, name in (("attention_norm", "input_layernorm"), ("mlp_norm", "pre_mlp_layernorm")):
            for kind in ("weight", "bias"):
                same(f"{theirs}.{name}.{kind}", f"{mine}.{part}.{kind}")
        for part, name in (
            ("attention.output", "self_attention.linear_proj"),
            ("mlp.up", "mlp.linear_fc1"),
            ("mlp.down", "mlp.linear_fc2"),
        ):
            for kind in ("weight", "bias"):
                same(f"{theirs}.{name}.{kind}", f"{mine}.{part}.{kind}")
        parts = [f"{mine}.attention.{part}.weight" for part in ("query", "key", "value")]
        rows = weights[parts[0]].shape[0]
        grouped = torch.cat([weights[part].view(groups, -1, rows) for part in parts], dim=1)
        fused = leaf(f"{theirs}.self_attention.linear_qkv.weight", grouped.reshape(3 * rows, rows))
        for number, part in enumerate(parts):
            takers[part] = lambda fused=fused, number=number, rows=rows: (
                fused.view(groups, -1, rows).chunk(3, dim=1)[number].reshape(rows, rows)
            )
        bias = weights[f"{mine}.attention.value.bias"].view(groups, 1, -1)
        biases = leaf(
            f"{theirs}.self_attention.linear_qkv.bias", torch.cat([0 * bias, 0 * bias, bias], dim=1).reshape(-1)
        )
        takers[f"{mine}.attention.value.bias"] = lambda biases=biases: biases.view(groups, 3, -1)[:, 2].reshape(-1)
    for kind in ("weight", "bias"):
        same(f"decoder.final_layernorm.{kind}", f"norm.{kind}")
    return own, lambda: {name: take() for name, take in takers.items()}
