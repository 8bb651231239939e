"""What a problem is: one deterministic training step, the same bytes on every device and world size."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from gradassay.goldens.header import Parameter

if TYPE_CHECKING:
    import torch
    from torch import Tensor, nn

    from gradassay.harness.parallel import ExpertParallel

IGNORED = -100
"""Target of a token that does not count in the loss (torch's `ignore_index`)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """One unit's data. inputs: [S, L] int64 token ids. targets: [S, L] int64, IGNORED where a token does not count."""

    inputs: Tensor
    targets: Tensor


@dataclass(frozen=True, slots=True, kw_only=True)
class Routed:
    """The routed part of one layer, for strategies that put a framework's own mixture-of-experts layer in its place.

    It maps [..., hidden] to ([..., hidden], auxiliary loss as an unscaled float32 scalar): softmax over the router's
    float32 logits, the `top_k` = 2 largest normalised to sum 1, no token dropped; auxiliary loss
    `experts * sum_e mean_t(p[t, e]) * f[e]` over the unit's own tokens, with f[e] the share of tokens whose first
    choice is e (DeepSpeed) or the share of all choices that fall on e (Megatron-Core): units are made so that both
    agree.

    prefix: canonical name of the part; its parameters are `{prefix}.router.weight` [experts, hidden] and those of
    `{prefix}.experts.{e}`, which are the parameters of `expert()` by their names. hidden, inner: widths.
    """

    layer: int
    prefix: str
    experts: int
    hidden: int
    inner: int
    top_k: int
    expert: Callable[[], nn.Module]


class Problem(Protocol):
    """One deterministic training step: model, initial weights, data, objective."""

    @property
    def name(self) -> str:
        """The name by which matrices and goldens refer to it."""

    @property
    def digest(self) -> str:
        """`sha256:...` over weights, data, objective, terms, names, shapes and the model's version number."""

    @property
    def objective(self) -> Literal["unit-mean", "token-mean"]:
        """Whether every unit's mean loss counts alike or by its number of tokens."""

    @property
    def terms(self) -> tuple[str, ...]:
        """Names of the loss terms where the objective is a sum, as in ("main", "aux"); () for one term."""

    @property
    def units(self) -> int:
        """How many units there are; a layout with dp * accum beyond it cannot run."""

    @property
    def experts(self) -> int:
        """Experts in each routed layer, 0 for a dense model; ep must divide it."""

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        """The trained parameters by canonical name (unsharded, experts one by one), in canonical order."""

    def weights(self) -> Mapping[str, NDArray[np.float32]]:
        """Initial values by canonical name, frozen parameters included; each is exact in bfloat16."""

    def tokens(self, unit: int) -> int:
        """Tokens that count in the loss of `unit`."""

    def batch(self, unit: int, device: torch.device | str = "cpu") -> Batch:
        """The data of `unit`."""

    def build(
        self,
        dtype: torch.dtype,
        *,
        device: torch.device | str = "cpu",
        experts: ExpertParallel | None = None,
        routed: Callable[[Routed], nn.Module] | None = None,
    ) -> nn.Module:
        """The model with its initial weights, all parameters in `dtype`; its parameter names are canonical.

        experts: the rank's place in its ep group; only its experts are made, under their global numbers. routed: makes
        the routed part of each layer instead; the caller fills its parameters by `fill`.
        """

    def fill(self, model: nn.Module, canonical: Mapping[str, str]) -> None:
        """Copies initial weights into the parameters `canonical` names: local parameter name -> canonical name."""

    def blocks(self, model: nn.Module) -> tuple[nn.Module, ...]:
        """The repeated blocks of `model`, in order: what FSDP shards one by one."""

    def expert_modules(self, model: nn.Module) -> tuple[nn.Module, ...]:
        """Modules that hold a layer's local experts and nothing else, in order; () for a dense model."""

    def losses(self, model: nn.Module, batch: Batch) -> dict[str, Tensor]:
        """Runs `model` (or a wrapper of it) on `batch`: the unit's mean loss by term, {"main": ...} for one term.

        Their sum is the unit's loss; float32, or float64 in a float64 model.
        """
