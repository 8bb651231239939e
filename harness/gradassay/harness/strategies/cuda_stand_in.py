"""A stand-in for CUDA where there is none, so that frameworks written for GPUs take their own steps on CPUs with gloo.

Made of parts; a framework names those that it needs, and every record made with them names them too:

- `STREAMS`: `torch.cuda` `Stream`, `Event`, `stream`, `current_stream`, `default_stream`, `synchronize`, `empty_cache` and
  `Tensor.record_stream` do nothing: CPU work is done when its call returns.
- `COLLECTIVES`: `reduce_scatter_tensor`, `all_reduce` and `all_gather_into_tensor` of `torch.distributed` have ended when
  they return, asynchronous and coalesced (`_coalescing_manager`) or not: gloo would still be at work where a CUDA stream
  makes what follows wait. They understand two operations of nccl that gloo lacks, `AVG` and the fused product and sum
  (`_make_nccl_premul_sum`): every rank's values are multiplied, then summed.
- `device(...)`: what `torch.cuda.current_device` answers; `set_device` does nothing, and `Tensor.cuda` returns the tensor.

No line of a framework's own arithmetic is replaced. A framework that needs more adds a `Part` of its own.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from gradassay.goldens.errors import UsageError


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """Replacements by owner and attribute. hides: what a record made with it cannot show, in words."""

    name: str
    replacements: tuple[tuple[Any, str, Any], ...]
    hides: str = ""


class Stream:
    """A stream whose work is always done; also an event, as whatever it records has happened."""

    def __init__(self, *_arguments: Any, **_options: Any) -> None:
        pass

    def wait_stream(self, _other: Any) -> None:
        """Returns at once."""

    def wait_event(self, _event: Any) -> None:
        """Returns at once."""

    def wait(self, _stream: Any = None) -> None:
        """Returns at once."""

    def record(self, _stream: Any = None) -> None:
        """Returns at once."""

    def synchronize(self) -> None:
        """Returns at once."""

    def query(self) -> bool:
        """True: everything is done."""
        return True

    def record_event(self, _event: Any = None) -> Stream:
        """An event that has happened."""
        return self


_THE_STREAM = Stream()


def _within(_stream: Any) -> contextlib.AbstractContextManager[None]:
    return contextlib.nullcontext()


def _nothing(*_arguments: Any, **_options: Any) -> None:
    return None


@dataclass(frozen=True, slots=True)
class ScaledSum:
    """nccl's sum of values that are multiplied by `factor` on every rank first."""

    factor: float


def _plain(operation: Any, group: Any) -> tuple[Any, float | None]:
    """The operation that gloo has in its place, and what every rank multiplies its values by first."""
    if operation == dist.ReduceOp.AVG:
        return dist.ReduceOp.SUM, 1.0 / dist.get_world_size(group)
    if isinstance(operation, ScaledSum):
        return dist.ReduceOp.SUM, operation.factor
    return operation, None


class Done:
    """A collective that has ended, and what a coalescing manager hands over for several."""

    def append(self, _work: Any) -> None:
        """Takes note of nothing."""

    def wait(self, _timeout: Any = None) -> bool:
        """True, at once."""
        return True

    def is_completed(self) -> bool:
        """True."""
        return True


_all_reduce, _all_gather, _reduce_scatter = dist.all_reduce, dist.all_gather_into_tensor, dist.reduce_scatter_tensor


def all_reduce(tensor: Tensor, op: Any = dist.ReduceOp.SUM, group: Any = None, async_op: bool = False) -> Done | None:
    """`torch.distributed.all_reduce`, which also knows nccl's `AVG` (a sum of values times 1/size there) and `ScaledSum`."""
    op, factor = _plain(op, group)
    _all_reduce(tensor if factor is None else tensor.mul_(factor), op, group)
    return Done() if async_op else None


def reduce_scatter_tensor(
    output: Tensor, input: Tensor, op: Any = dist.ReduceOp.SUM, group: Any = None, async_op: bool = False
) -> Done | None:
    """`torch.distributed.reduce_scatter_tensor` with the same two operations; `input` keeps its values."""
    op, factor = _plain(op, group)
    _reduce_scatter(output, input if factor is None else input * factor, op, group)
    return Done() if async_op else None


def all_gather_into_tensor(
    output_tensor: Tensor, input_tensor: Tensor, group: Any = None, async_op: bool = False
) -> Done | None:
    """`torch.distributed.all_gather_into_tensor`, which has ended when it returns."""
    _all_gather(output_tensor, input_tensor, group)
    return Done() if async_op else None


@contextlib.contextmanager
def _one_by_one(*_arguments: Any, **_options: Any) -> Iterator[Done]:
    yield Done()


STREAMS = Part(
    name="streams",
    hides="races between streams",
    replacements=(
        (torch.cuda, "Stream", Stream),
        (torch.cuda, "Event", Stream),
        (torch.cuda, "stream", _within),
        (torch.cuda, "current_stream", lambda *_: _THE_STREAM),
        (torch.cuda, "default_stream", lambda *_: _THE_STREAM),
        (torch.cuda, "synchronize", _nothing),
        (torch.cuda, "empty_cache", _nothing),
        (torch.Tensor, "record_stream", _nothing),
    ),
)

COLLECTIVES = Part(
    name="collectives",
    hides="how nccl itself applies factors, above all in groups of one rank",
    replacements=(
        (dist, "_make_nccl_premul_sum", ScaledSum),
        (dist, "reduce_scatter_tensor", reduce_scatter_tensor),
        (dist, "all_reduce", all_reduce),
        (dist, "all_gather_into_tensor", all_gather_into_tensor),
        (dist, "_coalescing_manager", _one_by_one),
    ),
)


def device(answer: int | str) -> Part:
    """`torch.cuda.current_device` answers with a number, or "cpu" for frameworks that put tensors there."""
    return Part(
        name="device",
        replacements=(
            (torch.cuda, "current_device", lambda: answer),
            (torch.cuda, "set_device", _nothing),
            (torch.Tensor, "cuda", lambda tensor, *_arguments, **_options: tensor),
        ),
    )


_installed: dict[str, Part] = {}


def is_needed() -> bool:
    """Whether this machine has no GPU; asks without starting CUDA, so that a fork server may."""
    return torch.cuda.device_count() == 0


def install(*parts: Part) -> None:
    """Puts the parts in place for the rest of this process, before the framework is imported; again is no harm.

    Raises UsageError where there is CUDA: nothing may stand in for it there.
    """
    if not is_needed():
        raise UsageError(
            f"nothing stands in for CUDA on a machine with {torch.cuda.device_count()} GPUs",
            hint="run one rank a GPU, or hide the GPUs with CUDA_VISIBLE_DEVICES= (empty)",
        )
    for part in parts:
        if part.name not in _installed:
            _installed[part.name] = part
            for owner, attribute, replacement in part.replacements:
                setattr(owner, attribute, replacement)


def facts() -> Mapping[str, Any]:
    """For the environment of a record: the parts in place and what they hide; {} where CUDA is real."""
    if not _installed:
        return {}
    return {
        "stand_in": {
            "for": "cuda",
            "parts": sorted(_installed),
            "cannot_show": [part.hides for _, part in sorted(_installed.items()) if part.hides],
        }
    }
