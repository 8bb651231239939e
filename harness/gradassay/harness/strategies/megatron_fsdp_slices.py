"""Reading what a rank of a Megatron-FSDP model holds, without gathering any."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from torch import Tensor

from gradassay.goldens.layout import Layout
from gradassay.harness.capture.piece import Piece, stretch, whole


def trained(model: Any) -> Iterator[tuple[str, Any, Any]]:
    """Name, optimizer's parameter and parameter group of what is trained; `orig_param` is the unsharded parameter."""
    buffer = model.param_and_grad_buffer
    for name, parameter in buffer.optimizer_named_parameters:
        if parameter.requires_grad:
            yield name, parameter, buffer.parameter_groups[buffer.param_to_param_group[parameter.orig_param]]


def held(
    model: Any,
    values: Callable[[Any], Tensor | None],
    layout: Layout,
    *,
    dp_rank: int,
    copy: Callable[[bool], int],
) -> list[Piece]:
    """This rank's slices. values: from the optimizer's parameter to what is read of it. copy: number of this rank's copy of
    what is not sharded, an expert's or not.

    The package keeps the parameters of a group one after another in a buffer, and cuts that into even shards.
    """
    configuration = model.ddp_config
    spread = configuration.outer_dp_sharding_strategy != "no_shard"
    replica = 0 if spread else dp_rank // (layout.dp // layout.replicate)
    found = []
    for name, parameter, group in trained(model):
        tensor, original = values(parameter), parameter.orig_param
        local = None if tensor is None else getattr(tensor, "_local_tensor", tensor).detach().reshape(-1)
        if configuration.data_parallel_sharding_strategy == "no_shard":
            found.append(whole(name, local, numel=original.numel(), replica=copy(bool(group.is_expert_param))))
        else:
            gradients = group.main_grad_buffer
            start, end = gradients._get_item_slice_in_shard(gradients.param_idx[original])
            found.append(stretch(name, local, start=start, length=end - start, replica=replica))
    return found
