"""Reading the gradients that a DeepSpeed rank holds after the window's last backward, without gathering any."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from gradassay.harness.capture.piece import Piece, stretch, whole
from gradassay.harness.mesh import Ranks
from gradassay.harness.strategies.deepspeed_moe import is_expert

if TYPE_CHECKING:
    from torch.nn import Parameter


def held(named: Iterable[tuple[str, Parameter]], ranks: Ranks, stage: int) -> list[Piece]:
    """This rank's pieces of the parameters `named` by canonical name, in the given ZeRO stage.

    Valid after the last `engine.backward()` of an accumulation window and before `engine.step()`; outside it DeepSpeed
    holds unreduced, partial or stale values without saying so. Local: nothing is communicated.
    """
    read = {0: _replicated, 1: _fragment, 2: _fragment, 3: _partition}[stage]
    pieces = (read(name, parameter, ranks) for name, parameter in named if parameter.requires_grad)
    return [piece for piece in pieces if piece is not None]


def values(named: Iterable[tuple[str, Parameter]], ranks: Ranks, stage: int) -> list[Piece]:
    """This rank's pieces of the parameters' full-precision values, as `held` of their gradients."""
    found = []
    for name, parameter in named:
        if parameter.requires_grad:
            piece = _value(name, parameter, ranks, stage)
            found += [] if piece is None else [piece]
    return found


def _value(name: str, parameter: Any, ranks: Ranks, stage: int) -> Piece | None:
    mapping = getattr(parameter, "_hp_mapping", None)
    if stage == 3:
        from deepspeed.utils import safe_get_local_fp32_param

        share = parameter.partition_numel()
        start = ranks.dp_rank * share
        length = min(share, parameter.ds_numel - start)
        if length <= 0:
            return None
        return stretch(name, safe_get_local_fp32_param(parameter).reshape(-1)[:length], start=start, length=length)
    if stage == 0:
        replica = ranks.edp_rank if is_expert(parameter) else ranks.dp_rank
        master = parameter if mapping is None else mapping.hp_fragment.view(parameter.shape)
        return whole(name, master, numel=parameter.numel(), replica=replica)
    if mapping is None:
        return None
    address = mapping.lp_fragment_address
    return stretch(name, mapping.hp_fragment.detach().reshape(-1), start=address.start, length=address.numel)


def _replicated(name: str, parameter: Parameter, ranks: Ranks) -> Piece:
    """Stage 0: the whole gradient on every data-parallel rank, of an expert on every rank of its edp group."""
    gradient = getattr(parameter, "_hp_grad", None)
    gradient = parameter.grad if gradient is None else gradient
    replica = ranks.edp_rank if is_expert(parameter) else ranks.dp_rank
    return whole(name, gradient, numel=parameter.numel(), replica=replica)


def _fragment(name: str, parameter: Any, ranks: Ranks) -> Piece | None:
    """Stages 1 and 2: the fragment of the flattened parameter that lies in this rank's optimizer partition."""
    del ranks
    mapping = parameter._hp_mapping
    if mapping is None:
        return None
    address = mapping.lp_fragment_address
    group = mapping.gradient_dict[mapping.param_group_index]
    values = group[parameter._index_in_param_group].detach().reshape(-1)
    if values.numel() == parameter.numel():
        values = values.narrow(0, address.start, address.numel)
    assert values.numel() == address.numel, f"{name}: fragment of {values.numel()} elements for {address}"
    return stretch(name, values, start=address.start, length=address.numel)


def _partition(name: str, parameter: Any, ranks: Ranks) -> Piece | None:
    """Stage 3: this rank's equal share of the flattened parameter, the last ones short or empty."""
    from deepspeed.utils import safe_get_local_grad

    share = parameter.partition_numel()
    start = ranks.dp_rank * share
    length = min(share, parameter.ds_numel - start)
    if length <= 0:
        return None
    return stretch(name, safe_get_local_grad(parameter).reshape(-1)[:length], start=start, length=length)
