"""Megatron-Core's own mixture-of-experts layer in the place of a problem's routed part."""

from __future__ import annotations

import re
from functools import partial
from importlib import import_module
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from gradassay.goldens.errors import UsageError
from gradassay.harness.mesh import Ranks
from gradassay.harness.problems.protocol import Routed

_ROUTER = "layer.router.weight"
_EXPERT = re.compile(r"layer\.experts\.local_experts\.(\d+)\.linear_fc([12])\.weight")
_PARTS = {"1": "up", "2": "down"}


class RoutedLayer(nn.Module):
    """Megatron-Core's `MoELayer` with its `SequentialMLP`; only this rank's experts are made.

    Its router adds the auxiliary loss to the gradients by itself (`MoEAuxLossAutoScaler`), so that none is returned.
    """

    def __init__(self, routed: Routed, ranks: Ranks, config: Any) -> None:
        super().__init__()
        _check(routed)
        self.prefix = routed.prefix
        self.first_expert = ranks.ep_rank * (routed.experts // ranks.layout.ep)
        self.config = config
        specs = import_module("megatron.core.models.gpt.moe_module_specs")
        spec = specs.get_moe_module_spec(use_te=False, num_experts=routed.experts, moe_grouped_gemm=False)
        # A builder from 0.19 on, before that a description.
        build = spec if callable(spec) else partial(spec.module, submodules=spec.submodules)
        self.layer = build(config=self.config)

    def forward(self, hidden: Tensor) -> tuple[Tensor, Tensor]:
        """Output [..., hidden], and zero."""
        output, _ = self.layer(hidden)
        return output, torch.zeros((), dtype=torch.float32, device=output.device)

    def canonical(self, name: str) -> str:
        """Canonical name of this layer's parameter `name`: local expert i of ep rank e is expert e * n_local + i."""
        if name == _ROUTER:
            return f"{self.prefix}.router.weight"
        match = _EXPERT.fullmatch(name)
        assert match is not None, f"Megatron-Core's MoE layer has a parameter {name!r} without a canonical name"
        return f"{self.prefix}.experts.{self.first_expert + int(match[1])}.{_PARTS[match[2]]}.weight"


def settings(routed: Routed, *, ep: int, dispatcher: str, coefficient: float) -> dict[str, Any]:
    """What a `TransformerConfig` needs for one routed part. coefficient: of the auxiliary loss."""
    return {
        "num_moe_experts": routed.experts,
        "hidden_size": routed.hidden,
        "ffn_hidden_size": routed.inner,
        "moe_ffn_hidden_size": routed.inner,
        "moe_router_topk": routed.top_k,
        "moe_router_dtype": "fp32",
        "moe_router_pre_softmax": False,
        "moe_router_load_balancing_type": "aux_loss",
        "moe_aux_loss_coeff": coefficient,
        "moe_token_dispatcher_type": dispatcher,
        "activation_func": functional.silu,
        "gated_linear_unit": False,
        "add_bias_linear": False,
        "bias_activation_fusion": False,
        "expert_model_parallel_size": ep,
    }


def canonical_names(model: nn.Module) -> dict[str, str]:
    """Local parameter name -> canonical name, for every parameter of a model whose routed parts are `RoutedLayer`."""
    layers = {path: module for path, module in model.named_modules() if isinstance(module, RoutedLayer)}
    names: dict[str, str] = {}
    for name, _ in model.named_parameters():
        path = next((path for path in layers if name.startswith(f"{path}.")), None)
        names[name] = name if path is None else layers[path].canonical(name.removeprefix(f"{path}."))
    return names


def _check(routed: Routed) -> None:
    """Raises UsageError for an expert that Megatron-Core's MLP cannot be."""
    shapes = {name: tuple(parameter.shape) for name, parameter in routed.expert().named_parameters()}
    wanted = {"up.weight": (routed.inner, routed.hidden), "down.weight": (routed.hidden, routed.inner)}
    if shapes != wanted:
        raise UsageError(
            f"{routed.prefix}: an expert has the parameters {shapes}; Megatron-Core's would have {wanted}",
            hint="use a problem whose experts are up, SiLU, down without bias",
        )
