"""DeepSpeed's own mixture-of-experts layer in the place of a problem's routed part."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from gradassay.harness.mesh import Ranks
from gradassay.harness.problems.protocol import Routed

if TYPE_CHECKING:
    from torch.nn import Parameter

_EXPERT = re.compile(r"layer\.deepspeed_moe\.experts\.deepspeed_experts\.(\d+)\.(.+)")
_ROUTER = "layer.deepspeed_moe.gate.wg.weight"


class RoutedLayer(nn.Module):
    """DeepSpeed's `MoE` with a problem's experts; only this rank's experts are made."""

    def __init__(self, routed: Routed, ranks: Ranks) -> None:
        from deepspeed.moe.layer import MoE

        super().__init__()
        self.prefix = routed.prefix
        self.first_expert = ranks.ep_rank * (routed.experts // ranks.layout.ep)
        self.layer = MoE(
            hidden_size=routed.hidden,
            expert=routed.expert(),
            num_experts=routed.experts,
            ep_size=ranks.layout.ep,
            k=routed.top_k,
            use_rts=False,
            noisy_gate_policy=None,
            **_every_token_to_its_best(MoE, routed),
        )

    def forward(self, hidden: Tensor) -> tuple[Tensor, Tensor]:
        """Output [..., hidden] and the auxiliary loss of this rank's tokens, unscaled."""
        output, auxiliary, _ = self.layer(hidden)
        return output, auxiliary

    def canonical(self, name: str) -> str:
        """Canonical name of this layer's parameter `name`: local expert i of ep rank e is expert e * n_local + i."""
        if name == _ROUTER:
            return f"{self.prefix}.router.weight"
        match = _EXPERT.fullmatch(name)
        assert match is not None, f"DeepSpeed's MoE layer has a parameter {name!r} without a canonical name"
        return f"{self.prefix}.experts.{self.first_expert + int(match[1])}.{match[2]}"


def _every_token_to_its_best(layer: type[nn.Module], routed: Routed) -> dict[str, Any]:
    """Settings by which every token goes to its `top_k` best experts, and none is dropped.

    Before 0.14.0 the second expert is always sampled, by noise that the module keeps in a table, a source for every device:
    one of zeros is put there. A capacity of all tokens stands in for `drop_tokens = False`, which top 2 did not have.
    """
    if "top2_2nd_expert_sampling" in inspect.signature(layer.__init__).parameters:
        return {"drop_tokens": False, "top2_2nd_expert_sampling": False}
    from deepspeed.moe import sharded_moe

    device = torch.device("cuda", torch.cuda.current_device()) if torch.cuda.is_available() else torch.device("cpu")
    sharded_moe.gumbel_map[device] = lambda shape: torch.zeros(shape, device=device)
    return {"capacity_factor": routed.experts / 2}


def routed_by_deepspeed(ranks: Ranks) -> Callable[[Routed], nn.Module]:
    """What `Problem.build` calls for every routed part."""
    return lambda routed: RoutedLayer(routed, ranks)


def canonical_names(model: nn.Module) -> dict[str, str]:
    """Local parameter name -> canonical name, for every parameter of a model built with `routed_by_deepspeed`."""
    layers = {path: module for path, module in model.named_modules() if isinstance(module, RoutedLayer)}
    names: dict[str, str] = {}
    for name, _ in model.named_parameters():
        path = next((path for path in layers if name.startswith(f"{path}.")), None)
        names[name] = name if path is None else layers[path].canonical(name.removeprefix(f"{path}."))
    return names


def is_expert(parameter: Parameter) -> bool:
    """Whether DeepSpeed reduces `parameter` over its expert group only."""
    return not getattr(parameter, "allreduce", True)


def parameter_groups(model: nn.Module) -> list[dict[str, Any]]:
    """Optimizer groups as DeepSpeed wants them: expert parameters apart from the rest."""
    from deepspeed.moe.utils import split_params_into_different_moe_groups_for_optimizer

    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
    groups: list[dict[str, Any]] = [{"params": parameters, "name": "parameters"}]
    if any(is_expert(parameter) for parameter in parameters):
        groups = split_params_into_different_moe_groups_for_optimizer(groups)
    return groups
