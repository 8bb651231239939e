"""A problem of one's own model, data and loss; whatever trains it can be compared with its golden.

1. cd examples
2. gradassay golden build own_problem:regression
3. gradassay record own_problem:regression --strategy fsdp2 --dp 2 --accum 2 --out run.safetensors
4. gradassay diff golden:regression.float32 run.safetensors
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from gradassay.harness import ModuleProblem


class Residual(nn.Module):
    """A block."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm, self.inner = nn.LayerNorm(width), nn.Linear(width, width)

    def forward(self, hidden: Tensor) -> Tensor:
        return hidden + nn.functional.silu(self.inner(self.norm(hidden)))


def build() -> nn.Module:
    return nn.Sequential(nn.Linear(16, 48), Residual(48), Residual(48), nn.Linear(48, 8))


def batch(unit: int) -> tuple[Tensor, Tensor]:
    random = torch.Generator().manual_seed(1000 + unit)
    return torch.randn(32, 16, generator=random), torch.randn(32, 8, generator=random)


def loss(model: nn.Module, data: tuple[Tensor, Tensor]) -> Tensor:
    inputs, targets = data
    return (model(inputs) - targets).square().mean()


def regression() -> ModuleProblem:
    return ModuleProblem(
        name="regression",
        model=build,
        batches=batch,
        loss=loss,
        blocks_of=lambda model: tuple(part for part in model.modules() if isinstance(part, Residual)),
    )
