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
from gradassay.harness.capture.piece import Piece, stretch, whole


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
                expert=bool(self._group(parameter).is_expert_param),
                tensor=parameter,
            )
            for name, parameter in self._named()
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
        trained = dict(self._named())
        return [
            hooked(name, parameter, self.place, see)
            for name, parameter in self.wrapper.raw_param.items()
            if name in trained
        ]

    def _named(self) -> list[tuple[str, Any]]:
        found = self.wrapper.param_and_grad_buffer.optimizer_named_parameters
        return [(name, parameter) for name, parameter in found if parameter.requires_grad]

    def _group(self, parameter: Any) -> Any:
        buffer = self.wrapper.param_and_grad_buffer
        return buffer.parameter_groups[buffer.param_to_param_group[parameter.orig_param]]

    def _pieces(self, values: Callable[[Any], Tensor | None]) -> list[Piece]:
        found = []
        for name, parameter in self._named():
            tensor = values(parameter)
            local = None if tensor is None else getattr(tensor, "_local_tensor", tensor).detach().reshape(-1)
            found.append(self._piece(name, parameter, local))
        return found

    def _piece(self, name: str, parameter: Any, values: Tensor | None) -> Piece:
        original, configuration = parameter.orig_param, self.wrapper.ddp_config
        if configuration.data_parallel_sharding_strategy == "no_shard":
            return whole(name, values, numel=original.numel(), replica=self.place.rank)
        gradients = self._group(parameter).main_grad_buffer
        start, end = gradients._get_item_slice_in_shard(gradients.param_idx[original])
        layout = self.place.layout
        spread = configuration.outer_dp_sharding_strategy != "no_shard"
        replica = 0 if spread else self.place.dp_rank // (layout.dp // layout.replicate)
        return stretch(name, values, start=start, length=end - start, replica=replica)
