"""A model in training under Megatron-FSDP on one rank, and the reading of its pieces without gathering any."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

from gradassay.goldens.header import Framework
from gradassay.harness.capture.piece import Piece, stretch, whole
from gradassay.harness.strategies.clipping import clip_pieces
from gradassay.harness.strategies.task import Task


@dataclass(frozen=True, kw_only=True)
class Training:
    """A `Session` of a `MegatronFSDP` model and an optimizer that `fully_shard_optimizer` has extended."""

    task: Task
    model: Any
    optimizer: Any
    framework: Framework
    convention: Mapping[str, Any] = field(default_factory=dict)
    environment: Mapping[str, Any] = field(default_factory=dict)

    def accumulate(self) -> None:
        """Runs the window; where the package does not synchronize every micro-batch by itself, it is told the last one."""
        by_itself = self.model.model_auto_sync
        for micro in self.task.micro_steps():
            if not by_itself:
                self.model.is_last_microbatch = micro + 1 == self.task.layout.accum
            self.task.loss(self.model, micro).backward()
        if not by_itself:
            self.model.finish_grad_sync()

    def gradients(self) -> list[Piece]:
        """This rank's slices of what the package hands to its optimizer."""
        return self._pieces(lambda parameter: parameter.grad)

    def weights(self) -> list[Piece]:
        """This rank's slices of the optimizer's parameters, in float32 unless the options say otherwise."""
        return self._pieces(lambda parameter: parameter.data)

    def clip(self, max_norm: float) -> list[Piece]:
        """The slices after scaling by the total norm; the package has no clipping of its own."""
        pieces = self.gradients()
        clip_pieces(pieces, max_norm, self.task.ranks, self.task.device)
        return pieces

    def update(self) -> None:
        """The optimizer's step, which also installs the new weights in the model, and empty gradient buffers."""
        self.optimizer.step(sync_grad_before_optimizer_step=False)
        self.optimizer.zero_grad()

    def _pieces(self, values: Callable[[Any], Tensor | None]) -> list[Piece]:
        buffer = self.model.param_and_grad_buffer
        found = []
        for name, parameter in buffer.optimizer_named_parameters:
            group = buffer.parameter_groups[buffer.param_to_param_group[parameter.orig_param]]
            if parameter.requires_grad:
                held = values(parameter)
                found.append(self._piece(name, group, parameter.orig_param, None if held is None else _local(held)))
        return found

    def _piece(self, name: str, group: Any, original: Tensor, values: Tensor | None) -> Piece:
        """The package keeps the parameters of a group one after another in a buffer, and cuts that into even shards."""
        layout, ranks = self.task.layout, self.task.ranks
        gradients, configuration = group.main_grad_buffer, self.model.ddp_config
        if configuration.data_parallel_sharding_strategy == "no_shard":
            replica = ranks.edp_rank if group.is_expert_param else ranks.dp_rank
            return whole(name, values, numel=original.numel(), replica=replica)
        start, end = gradients._get_item_slice_in_shard(gradients.param_idx[original])
        spread = configuration.outer_dp_sharding_strategy != "no_shard"
        replica = 0 if spread else ranks.dp_rank // (layout.dp // layout.replicate)
        return stretch(name, values, start=start, length=end - start, replica=replica)


def _local(tensor: Any) -> Tensor:
    """The elements that this rank holds, flattened, in place."""
    local: Tensor = getattr(tensor, "_local_tensor", tensor)
    return local.detach().reshape(-1)
