"""A problem on the package's language model."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray

from gradassay.goldens.header import Parameter
from gradassay.harness.problems.data import Data
from gradassay.harness.problems.protocol import IGNORED, Batch, Routed
from gradassay.harness.problems.routing import Routes, routes
from gradassay.harness.problems.shape import Shape, weights_of
from gradassay.harness.problems.weights import Weights

if TYPE_CHECKING:
    import torch
    from torch import Tensor, nn

    from gradassay.harness.parallel import ExpertParallel

MODEL_VERSION = 1
"""Raised whenever the same weights and data would give another loss; part of every digest."""


@dataclass(frozen=True, kw_only=True)
class LanguageProblem:
    """A `Problem` (see protocol.py) of a shape, a seed and a size of units."""

    name: str
    seed: int
    shape: Shape
    sequences: int
    units: int = 24
    objective: Literal["unit-mean", "token-mean"] = "unit-mean"

    @cached_property
    def digest(self) -> str:
        """`sha256:...` over everything that the step's gradient depends on."""
        found = hashlib.sha256(f"{MODEL_VERSION}:{self.name}:{self.objective}:{self.shape}:{self.units}".encode())
        for name, values in self.weights().items():
            found.update(f"{name}:{values.shape}".encode())
            found.update(values.astype("<f4").tobytes())
        for unit in range(self.units):
            data = self.data.unit(unit)
            for ids in (data.inputs, data.targets):
                found.update(ids.astype("<i8").tobytes())
        return f"sha256:{found.hexdigest()}"

    @property
    def terms(self) -> tuple[str, ...]:
        """Names of the loss terms, () for one."""
        return self.shape.terms

    @property
    def experts(self) -> int:
        """Experts in each routed layer, 0 for a dense model."""
        return self.shape.experts

    @cached_property
    def routes(self) -> Routes | None:
        """Which experts serve which token."""
        return routes(self.seed, self.shape.vocabulary, self.experts) if self.experts else None

    @cached_property
    def data(self) -> Data:
        """How units are drawn."""
        return Data(
            seed=self.seed,
            units=self.units,
            vocabulary=self.shape.vocabulary,
            sequences=self.sequences,
            length=self.shape.length,
            routes=self.routes,
            ragged=self.objective == "token-mean",
        )

    @cached_property
    def parameters(self) -> tuple[Parameter, ...]:
        """The trained parameters in canonical order."""
        return tuple(
            Parameter(name=weight.name, shape=weight.shape, family=weight.family)
            for weight in weights_of(self.shape)
            if weight.trained
        )

    def weights(self) -> Mapping[str, NDArray[np.float32]]:
        """Initial values by canonical name, frozen parameters included."""
        return Weights(self.seed, self.shape, self.routes, weights_of(self.shape))

    def tokens(self, unit: int) -> int:
        """Tokens that count in the loss of `unit`."""
        return self.data.tokens(unit)

    def batch(self, unit: int, device: torch.device | str = "cpu") -> Batch:
        """The data of `unit`."""
        import torch

        data = self.data.unit(unit)
        return Batch(
            inputs=torch.from_numpy(data.inputs).to(device),
            targets=torch.from_numpy(data.targets).to(device),
        )

    def build(
        self,
        dtype: torch.dtype,
        *,
        device: torch.device | str = "cpu",
        experts: ExpertParallel | None = None,
        routed: Callable[[Routed], nn.Module] | None = None,
    ) -> nn.Module:
        """The model with its initial weights; see the protocol."""
        import torch

        from gradassay.harness.parallel import ExpertParallel
        from gradassay.harness.problems.model import LanguageModel
        from gradassay.harness.problems.moe import RoutedExperts

        place = experts or ExpertParallel()
        with torch.device(device):
            model = LanguageModel(self.shape, routed or (lambda part: RoutedExperts(part, place))).to(dtype)
        known = {weight.name: weight for weight in weights_of(self.shape)}
        self.fill(model, {name: name for name, _ in model.named_parameters() if name in known})
        for name, parameter in model.named_parameters():
            if name in known:
                parameter.requires_grad_(known[name].trained)
        return model

    def fill(self, model: nn.Module, canonical: Mapping[str, str]) -> None:
        """Copies initial weights into the parameters that `canonical` names."""
        import torch

        weights = self.weights()
        parameters = dict(model.named_parameters())
        with torch.no_grad():
            for local, name in canonical.items():
                parameters[local].copy_(torch.from_numpy(weights[name]))

    def blocks(self, model: nn.Module) -> tuple[nn.Module, ...]:
        """The repeated blocks, in order."""
        from gradassay.harness.problems.model import Block

        return tuple(module for module in model.modules() if isinstance(module, Block))

    def expert_modules(self, model: nn.Module) -> tuple[nn.Module, ...]:
        """Modules that hold a layer's local experts, in order."""
        from gradassay.harness.problems.moe import Experts

        return tuple(module for module in model.modules() if isinstance(module, Experts))

    def losses(self, model: nn.Module, batch: Batch) -> dict[str, Tensor]:
        """The unit's mean loss by term."""
        from torch.nn import functional

        logits, auxiliary = model(batch.inputs)
        main = functional.cross_entropy(logits.flatten(0, 1), batch.targets.flatten(), ignore_index=IGNORED)
        if auxiliary is None:
            return {"main": main}
        return {"main": main, "aux": auxiliary * self.shape.auxiliary}
