"""A model that `fully_shard` spreads over ranks, with replicas of its shards or without."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn
from torch.distributed.fsdp import FSDPModule

from gradassay.harness.capture.models.plain import Names, Plain, hooked, named
from gradassay.harness.capture.models.protocol import See
from gradassay.harness.capture.moment.sign import Moment, Sign


@dataclass(frozen=True, kw_only=True)
class FullySharded(Plain):
    """Parameters and gradients are DTensors of this rank's shards."""

    @property
    def kind(self) -> str:
        """`fsdp2`."""
        return "fsdp2"

    @property
    def reduced_by_script(self) -> bool:
        """False: `fully_shard` does."""
        return False

    def signs(self) -> list[Sign]:
        """Also gradients that are still whole, and sums over shards that are not added up over replicas."""
        groups = [group for _, group in _groups(self.module)]
        parameters = [parameter for group in groups for parameter in group.fsdp_params]
        whole = sum(_is_whole(parameter) for parameter in parameters)
        partly = sum(getattr(group, "_partial_reduce_output", None) is not None for group in groups)
        signs = super().signs()
        if whole:
            signs.append(Sign(moment=Moment.UNSHARDED, found=whole, expected=len(parameters)))
        if partly:
            signs.append(Sign(moment=Moment.PARTLY_REPLICATED, found=partly, expected=len(groups)))
        return signs

    def watch(self, see: See) -> list[Any]:
        """Hooks on the whole parameters, which exist from a module's first forward pass on."""
        plain, paths = Names(self.module), {id(module): path for path, module in self.module.named_modules()}
        groups: dict[nn.Module, list[Any]] = defaultdict(list)
        for owner, group in _groups(self.module):
            groups[owner].append(group)
        handles: list[Any] = []
        watched: set[int] = set()

        def look(owner: nn.Module, _inputs: Any) -> None:
            for sharded in (parameter for group in groups[owner] for parameter in group.fsdp_params):
                whole = getattr(sharded, "_unsharded_param", None)
                if whole is not None and whole.requires_grad and id(whole) not in watched:
                    watched.add(id(whole))
                    where = sharded._module_info
                    path = paths[id(where.module)]
                    name = plain.of(f"{path}.{where.param_name}" if path else where.param_name)
                    handles.append(hooked(name, whole, see))

        handles += [owner.register_forward_pre_hook(look) for owner in groups]
        managed = {
            id(tensor)
            for own in groups.values()
            for group in own
            for parameter in group.fsdp_params
            for tensor in (parameter.sharded_param, getattr(parameter, "_unsharded_param", None))
        }
        handles += [
            hooked(name, parameter, see) for name, parameter in named(self.module) if id(parameter) not in managed
        ]
        return handles


def _groups(model: nn.Module) -> Iterator[tuple[nn.Module, Any]]:
    """Modules that `fully_shard` was called on, with each of their groups of parameters."""
    for module in model.modules():
        if isinstance(module, FSDPModule):
            state: Any = module._get_fsdp_state()
            groups = getattr(state, "_fsdp_param_groups", None)
            for group in [state._fsdp_param_group] if groups is None else groups:
                if group is not None:
                    yield module, group


def _is_whole(parameter: Any) -> bool:
    """Whether a gradient of a sharded parameter has not been reduced and sharded."""
    unsharded: Tensor | None = getattr(parameter, "_unsharded_param", None)
    return parameter.unsharded_accumulated_grad is not None or (unsharded is not None and unsharded.grad is not None)
