"""A problem of anybody's own model, data and loss."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from gradassay.goldens.errors import UsageError
from gradassay.goldens.header import Parameter
from gradassay.harness.problems.families import guess_family

if TYPE_CHECKING:
    import torch
    from torch import Tensor, nn

    from gradassay.harness.parallel import ExpertParallel
    from gradassay.harness.problems.protocol import Routed


@dataclass(frozen=True, kw_only=True)
class ModuleProblem:
    """A `Problem` (see protocol.py) of four functions.

    model: makes the module, on the CPU in float32; random numbers are seeded by `seed` around it, and its initial weights
    rounded to bfloat16, so that runs in either type start alike. batches: unit -> its data, the same at every call:
    tensors, or lists, tuples and dictionaries of them. loss: (module or its wrapper, data) -> the unit's mean loss.
    tokens_of: unit -> tokens that its loss is a mean over, for an objective that is a mean over tokens; None for a mean over
    units. families: parameter name -> family where the guess (problems/families.py) is wrong. blocks_of: module -> the
    modules that are sharded one by one. version: raise it when model or loss change though weights and data do not.
    """

    name: str
    model: Callable[[], nn.Module]
    batches: Callable[[int], Any]
    loss: Callable[[Any, Any], Tensor]
    units: int = 24
    tokens_of: Callable[[int], int] | None = None
    families: Mapping[str, str] = field(default_factory=dict)
    blocks_of: Callable[[nn.Module], tuple[nn.Module, ...]] | None = None
    seed: int = 0
    version: int = 1

    @property
    def objective(self) -> Literal["unit-mean", "token-mean"]:
        """A mean over tokens where they are counted."""
        return "unit-mean" if self.tokens_of is None else "token-mean"

    @property
    def terms(self) -> tuple[str, ...]:
        """(): one term."""
        return ()

    @property
    def experts(self) -> int:
        """0: whatever experts there are, each rank has them all."""
        return 0

    @cached_property
    def digest(self) -> str:
        """`sha256:...` over weights, data, objective and version."""
        found = hashlib.sha256(f"{self.name}:{self.objective}:{self.units}:{self.version}".encode())
        for name, values in self.weights().items():
            found.update(f"{name}:{values.shape}".encode())
            found.update(values.astype("<f4").tobytes())
        for unit in range(self.units):
            found.update(f"{unit}:{self.tokens(unit)}".encode())
            for tensor in _tensors(self.batches(unit)):
                found.update(f"{tensor.dtype}:{tuple(tensor.shape)}".encode())
                found.update(tensor.double().numpy().astype("<f8").tobytes())
        return f"sha256:{found.hexdigest()}"

    @cached_property
    def parameters(self) -> tuple[Parameter, ...]:
        """The trained parameters in the module's order."""
        unknown = set(self.families) - {name for name, _ in self._start.named_parameters()}
        if unknown:
            raise UsageError(
                f"{self.name}: families for {', '.join(sorted(unknown))}, which the model does not have",
                hint="give families by the names of model().named_parameters()",
            )
        return tuple(
            Parameter(
                name=name,
                shape=tuple(parameter.shape),
                family=self.families.get(name) or guess_family(name, tuple(parameter.shape)),
            )
            for name, parameter in self._start.named_parameters()
            if parameter.requires_grad
        )

    def weights(self) -> Mapping[str, NDArray[np.float32]]:
        """Initial values by name, frozen parameters included."""
        return {name: parameter.detach().numpy() for name, parameter in self._start.named_parameters()}

    def tokens(self, unit: int) -> int:
        """Tokens that count in the loss of `unit`, 1 where they are not counted."""
        return 1 if self.tokens_of is None else self.tokens_of(unit)

    def batch(self, unit: int, device: torch.device | str = "cpu") -> Any:
        """The data of `unit`."""
        from torch.utils._pytree import tree_map

        return tree_map(lambda part: part.to(device) if hasattr(part, "to") else part, self.batches(unit))

    def build(
        self,
        dtype: torch.dtype,
        *,
        device: torch.device | str = "cpu",
        experts: ExpertParallel | None = None,
        routed: Callable[[Routed], nn.Module] | None = None,
    ) -> nn.Module:
        """The model with its initial weights; it has no routed part that could be replaced.

        Floating-point data is taken in the element type of the parameters, whichever that is in a forward pass.
        """
        del experts, routed
        from copy import deepcopy

        model = deepcopy(self._start).to(device=device, dtype=dtype)
        model.register_forward_pre_hook(_cast, with_kwargs=True)
        return model

    def fill(self, model: nn.Module, canonical: Mapping[str, str]) -> None:
        """Copies initial weights into the parameters that `canonical` names."""
        import torch

        start, parameters = dict(self._start.named_parameters()), dict(model.named_parameters())
        with torch.no_grad():
            for local, name in canonical.items():
                parameters[local].copy_(start[name])

    def blocks(self, model: nn.Module) -> tuple[nn.Module, ...]:
        """What FSDP shards one by one; () for the whole model at once."""
        return () if self.blocks_of is None else self.blocks_of(model)

    def expert_modules(self, model: nn.Module) -> tuple[nn.Module, ...]:
        """(): no experts are spread over ranks."""
        del model
        return ()

    def losses(self, model: nn.Module, batch: Any) -> dict[str, Tensor]:
        """The unit's mean loss."""
        import torch

        loss = self.loss(model, batch)
        return {"main": loss if loss.dtype == torch.float64 else loss.float()}

    @cached_property
    def _start(self) -> nn.Module:
        import torch

        with torch.random.fork_rng(devices=[]), torch.no_grad():
            torch.manual_seed(self.seed)
            model = self.model().to(device="cpu", dtype=torch.float32)
            for parameter in model.parameters():
                parameter.copy_(parameter.bfloat16().float())
        return model


def _tensors(data: Any) -> list[Tensor]:
    import torch
    from torch.utils._pytree import tree_leaves

    return [leaf for leaf in tree_leaves(data) if isinstance(leaf, torch.Tensor)]


def _cast(module: nn.Module, inputs: tuple[Any, ...], named: dict[str, Any]) -> tuple[Any, Any]:
    """Inputs in the element type of the module's whole parameters; one that is sharded says nothing of it."""
    import torch
    from torch.utils._pytree import tree_map

    dtype = next((one.dtype for one in module.parameters() if not hasattr(one, "placements")), None)
    if dtype is None:
        return inputs, named

    def cast(part: Any) -> Any:
        floating = isinstance(part, torch.Tensor) and part.is_floating_point()
        return part.to(dtype) if floating else part

    return tree_map(cast, inputs), tree_map(cast, named)
