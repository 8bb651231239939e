"""Reading what a DeepSpeed rank holds of gradients and of full-precision parameters, without gathering any."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch.distributed as dist
from torch import Tensor

from gradassay.goldens.errors import UsageError
from gradassay.harness.capture.piece import Piece, stretch, whole
from gradassay.harness.strategies.deepspeed_engine import loss_scale, stage_of
from gradassay.harness.strategies.deepspeed_moe import is_expert

if TYPE_CHECKING:
    from torch.nn import Parameter

Named = Iterable[tuple[str, "Parameter"]]


def held(engine: Any, named: Named) -> list[Piece]:
    """This rank's pieces of the gradients of the parameters `named`, divided by the loss scale where there is one.

    Valid where `engine_moment` has no objection: elsewhere DeepSpeed holds unreduced, partial or stale values without
    saying so; local. Raises UsageError for an engine whose gradients are offloaded. Copies of stage 0 are numbered by the
    data-parallel rank, of an expert by the rank in its expert-data-parallel group.
    """
    scale = loss_scale(engine)

    def unscaled(gradient: Tensor | None) -> Tensor | None:
        return gradient if gradient is None or scale == 1 else gradient.float() / scale

    return _pieces(
        engine,
        named,
        whole_of=lambda parameter: unscaled(_whole_gradient(parameter)),
        fragment_of=lambda fragment: unscaled(fragment.gradient),
        share_of=lambda parameter: unscaled(_share_gradient(parameter)),
    )


def values(engine: Any, named: Named) -> list[Piece]:
    """This rank's pieces of the full-precision values of the parameters `named`; valid at any time, local."""
    masters = _masters(engine)
    return _pieces(
        engine,
        named,
        whole_of=lambda parameter: masters.get(id(parameter), parameter),
        fragment_of=lambda fragment: fragment.value,
        share_of=_share_value,
    )


Read = Callable[[Any], "Tensor | None"]


def _pieces(engine: Any, named: Named, *, whole_of: Read, fragment_of: Read, share_of: Read) -> list[Piece]:
    """Stage 0: whole, on every rank. Stages 1 and 2: what lies in this rank's optimizer partition of the flattened
    group. Stage 3: this rank's equal share of the flattened parameter, the last ones short or empty.
    """
    stage, pieces = stage_of(engine), []
    fragments = _fragments(engine) if stage in (1, 2) else {}
    for name, parameter in named:
        if not parameter.requires_grad:
            continue
        if stage == 0:
            pieces.append(whole(name, whole_of(parameter), numel=parameter.numel(), replica=_copy(parameter)))
        elif stage < 3:
            fragment = fragments.get(id(parameter))
            if fragment is not None:
                pieces.append(_stretch(name, fragment_of(fragment), start=fragment.start, length=fragment.length))
        else:
            owner: Any = parameter
            share = owner.partition_numel()
            start = dist.get_rank(owner.ds_process_group) * share
            length = min(share, owner.ds_numel - start)
            if length > 0:
                values = share_of(parameter)
                values = None if values is None else values.reshape(-1)[:length]
                pieces.append(_stretch(name, values, start=start, length=length))
    return pieces


@dataclass(frozen=True, slots=True, kw_only=True)
class _Fragment:
    """Elements [start, start + length) of a flattened parameter, in this rank's partition: their gradient and values."""

    start: int
    length: int
    gradient: Tensor | None
    value: Tensor


def _fragments(engine: Any) -> dict[int, _Fragment]:
    """By id of the parameter, what a stage 1 or 2 optimizer keeps here; from the lists that its step goes through.

    The `_hp_mapping` that newer releases put on parameters says the same, but up to 0.14 not for experts.
    """
    optimizer = engine.optimizer
    if not hasattr(optimizer, "params_in_partition"):
        return {id(parameter): _mapped(parameter) for parameter in engine.module.parameters() if _is_mapped(parameter)}
    if getattr(optimizer, "cpu_offload", False):
        raise UsageError(
            "this DeepSpeed engine offloads its optimizer, and with it the gradients, to the CPU",
            hint="capture a run without offload_optimizer",
        )
    found = {}
    for group, parameters in enumerate(optimizer.params_in_partition):
        partition = optimizer.single_partition_of_fp32_groups[group]
        rank = dist.get_rank(optimizer.real_dp_process_group[group])
        gradients = _averaged(optimizer, group)
        for place, parameter in enumerate(parameters):
            number = optimizer.get_param_id(parameter)
            start = int(optimizer.grad_start_offset[group][rank][number])
            before = int(optimizer.grad_partition_insertion_offset[group][rank][number])
            length = min(parameter.numel() - start, partition.numel() - before)
            found[id(parameter)] = _Fragment(
                start=start,
                length=length,
                gradient=gradients[place] if gradients else None,
                value=partition.narrow(0, before, length),
            )
    return found


def _averaged(optimizer: Any, group: int) -> list[Tensor]:
    """The averaged gradients of a group's parameters in this rank's partition, without padding; [] where there are none."""
    averaged = optimizer.averaged_gradients.get(group)
    return [gradient for gradient in averaged or () if not getattr(gradient, "_zero_padding", False)]


def _is_mapped(parameter: Any) -> bool:
    return getattr(parameter, "_hp_mapping", None) is not None


def _mapped(parameter: Any) -> _Fragment:
    """Of an optimizer that averages whole parameters on every rank, but updates its own fragment only."""
    mapping = parameter._hp_mapping
    address = mapping.lp_fragment_address
    gradient = getattr(parameter, "_hp_grad", None)
    return _Fragment(
        start=address.start,
        length=address.numel,
        gradient=None if gradient is None else gradient.reshape(-1).narrow(0, address.start, address.numel),
        value=mapping.hp_fragment,
    )


def _stretch(name: str, values: Tensor | None, *, start: int, length: int) -> Piece:
    values = None if values is None else values.detach().reshape(-1)
    assert values is None or values.numel() == length, f"{name}: {values.numel()} values for {length} elements"
    return stretch(name, values, start=start, length=length)


def _copy(parameter: Any) -> int:
    """Number of the copy of a whole parameter that this rank holds."""
    from deepspeed.utils import groups

    if is_expert(parameter):
        return dist.get_rank(groups._get_expert_data_parallel_group(parameter.group_name))
    return dist.get_rank(groups._get_data_parallel_group())


def _whole_gradient(parameter: Any) -> Tensor | None:
    master: Tensor | None = getattr(parameter, "_hp_grad", None)
    own: Tensor | None = parameter.grad
    return own if master is None else master


def _share_gradient(parameter: Any) -> Tensor | None:
    from deepspeed.utils import safe_get_local_grad

    gradient: Tensor | None = safe_get_local_grad(parameter)
    return gradient


def _share_value(parameter: Any) -> Tensor | None:
    from deepspeed.utils import safe_get_local_fp32_param

    value: Tensor | None = safe_get_local_fp32_param(parameter)
    return value


def _masters(engine: Any) -> dict[int, Tensor]:
    """Full-precision copies of whole parameters by id of the parameter, of optimizers that keep such (stage 0)."""
    low, full = (getattr(engine.optimizer, f"fp{bits}_groups", ()) for bits in (16, 32))
    return {
        id(parameter): master
        for parameters, masters in zip(low, full, strict=False)
        for parameter, master in zip(parameters, masters, strict=True)
    }
