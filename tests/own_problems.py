"""Problems of one's own for tests, as a module that ranks import: `small` has a golden, `none` has too few units for one."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from gradassay.harness import ModuleProblem


def _model() -> nn.Module:
    return nn.Sequential(nn.Linear(6, 12), nn.SiLU(), nn.Linear(12, 4))


def _batch(unit: int) -> tuple[Tensor, Tensor]:
    random = torch.Generator().manual_seed(unit)
    return torch.randn(8, 6, generator=random), torch.randn(8, 4, generator=random)


def _loss(model: nn.Module, data: tuple[Tensor, Tensor]) -> Tensor:
    return (model(data[0]) - data[1]).square().mean()


def small() -> ModuleProblem:
    """Four units: the references behind its golden are few."""
    return ModuleProblem(name="small", model=_model, batches=_batch, loss=_loss, units=4)


def none() -> ModuleProblem:
    """One unit."""
    return ModuleProblem(name="none", model=_model, batches=_batch, loss=_loss, units=1)
