"""A model that Megatron-FSDP has wrapped."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn

from gradassay.harness.capture.models.place import Place
from gradassay.harness.capture.models.plain import hooked
from gradassay.harness.capture.models.protocol import Own, See
from gradassay.harness.capture.moment.sign import Sign
from gradassay.harness.capture.piece import Piece
from gradassay.harness.strategies.megatron_fsdp_slices import held, trained


@dataclass(frozen=True, kw_only=True)
class MegatronFsdp:
    """A `Model` whose parameters and gradients lie in evenly sharded buffers, one for each group of parameters."""

    wrapper: Any
    place: Place

    @property
    def kind(self) -> str:
        """`megatron-fsdp`."""
        return "megatron-fsdp"

    @property
    def module(self) -> nn.Module:
        """What was wrapped."""
        module: nn.Module = self.wrapper.module
        return module

    @property
    def reduced_by_script(self) -> bool:
        """False: the wrapper does."""
        return False

    @property
    def loss_scale(self) -> float:
        """1: a scaler is the script's own."""
        return 1.0

    def begin(self) -> None:
        """Nothing has to be noted."""

    def parameters(self) -> list[Own]:
        """Trained parameters in their unsharded shapes; their tensors are those that the optimizer holds."""
        return [
            Own(
                name=name,
                shape=tuple(parameter.orig_param.shape),
                expert=bool(group.is_expert_param),
                tensor=parameter,
            )
            for name, parameter, group in trained(self.wrapper)
        ]

    def gradients(self) -> list[Piece]:
        """This rank's slices of what is handed to the optimizer; none before the wrapper has reduced them."""
        return self._pieces(lambda parameter: parameter.grad)

    def weights(self) -> list[Piece]:
        """This rank's slices of the optimizer's parameters."""
        return self._pieces(lambda parameter: parameter.data)

    def signs(self) -> list[Sign]:
        """None: gradients that are not reduced are not there."""
        return []

    def watch(self, see: See) -> list[Any]:
        """Hooks on the parameters that autograd sees."""
        names = {name for name, _, _ in trained(self.wrapper)}
        return [hooked(name, parameter, see) for name, parameter in self.wrapper.raw_param.items() if name in names]

    def _pieces(self, values: Callable[[Any], Tensor | None]) -> list[Piece]:
        place = self.place
        return held(self.wrapper, values, place.layout, dp_rank=place.dp_rank, copy=lambda _expert: place.rank)
