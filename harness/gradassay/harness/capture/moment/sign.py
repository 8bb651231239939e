"""Signs of a wrong moment, and the error that all ranks raise alike for them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum

from gradassay.goldens.errors import WrongMoment
from gradassay.harness.capture.exchange import Exchange


class Moment(IntEnum):
    """What a wrong moment may be; where there are signs of several, the first is named."""

    MICRO_STEPS = 1
    UPDATED = 2
    NO_SYNC = 3
    NOT_REDUCED = 4
    UNSHARDED = 5
    PARTLY_REPLICATED = 6
    PARTIAL = 7
    OFF_BOUNDARY = 8
    HALF_UNSCALED = 9
    STEPPED = 10
    OVERLAPPING = 11
    ENGINE_CLEARED = 12
    ENGINE_UPDATED = 13
    ENGINE_NO_SYNC = 14


@dataclass(frozen=True, slots=True, kw_only=True)
class Sign:
    """What one rank sees. found, expected: counts that the message tells. message: where a framework says it itself."""

    moment: Moment
    found: int = 0
    expected: int = 0
    message: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Words:
    name: str
    message: str
    hint: str


_BEFORE_REDUCTION = "capture after the backward pass of the last micro-batch, which has to reduce"
_OF_ENGINE = "capture between the last engine.backward() of the window and its engine.step()"
_WORDS: Mapping[Moment, _Words] = {
    Moment.MICRO_STEPS: _Words(
        name="accumulating",
        message="{found} micro-batches ran since watch(), but the layout has accum = {expected}",
        hint="watch(model) before the first micro-batch and capture after the last; each is one forward pass of the "
        "watched module with gradients enabled, and its backward pass",
    ),
    Moment.UPDATED: _Words(
        name="updated",
        message="the optimizer has taken a step with these gradients already ({found} of {expected} looked at)",
        hint="capture before optimizer.step()",
    ),
    Moment.NO_SYNC: _Words(
        name="no-sync",
        message="DistributedDataParallel is under no_sync(), where it reduces nothing",
        hint=_BEFORE_REDUCTION,
    ),
    Moment.NOT_REDUCED: _Words(
        name="no-sync",
        message="DistributedDataParallel has reduced no backward pass of this window: all ran under no_sync()",
        hint=_BEFORE_REDUCTION,
    ),
    Moment.UNSHARDED: _Words(
        name="unreduced",
        message="{found} of {expected} parameters hold whole gradients that fully_shard has not reduced",
        hint=f"{_BEFORE_REDUCTION}: model.set_requires_gradient_sync(True) before its forward pass",
    ),
    Moment.PARTLY_REPLICATED: _Words(
        name="unreduced",
        message="the shards' gradients of {found} groups of parameters are not added up over replicas yet",
        hint=f"{_BEFORE_REDUCTION}: model.set_requires_all_reduce(True) before its forward pass",
    ),
    Moment.PARTIAL: _Words(
        name="unreduced",
        message="{found} of {expected} gradients are partial sums along data-parallel ranks",
        hint="capture after they were reduced",
    ),
    Moment.OVERLAPPING: _Words(
        name="accumulating",
        message="{found} of {expected} micro-batches began before the backward pass of the one before",
        hint="self-assay tells micro-batches apart by the forward pass before their backward pass: run them one by one",
    ),
    Moment.OFF_BOUNDARY: _Words(
        name="accumulating",
        message="the engine has not finished its accumulation window",
        hint=_OF_ENGINE,
    ),
    Moment.ENGINE_CLEARED: _Words(name="cleared", message="", hint=_OF_ENGINE),
    Moment.ENGINE_UPDATED: _Words(name="updated", message="", hint=_OF_ENGINE),
    Moment.ENGINE_NO_SYNC: _Words(name="no-sync", message="", hint=_OF_ENGINE),
    Moment.HALF_UNSCALED: _Words(
        name="unscaled",
        message="the scaler has unscaled the gradients of {found} of {expected} parameters",
        hint="capture before the first unscale_(optimizer), or after the last",
    ),
    Moment.STEPPED: _Words(
        name="updated",
        message="the scaler has stepped an optimizer already",
        hint="capture before scaler.step(optimizer)",
    ),
}


def agree(signs: Sequence[Sign], exchange: Exchange) -> None:
    """Raises WrongMoment on all ranks alike where any of them has a sign; collective."""
    own = [(int(sign.moment), sign.found, sign.expected, sign.message) for sign in signs]
    seen = [
        (moment, rank, found, expected, message)
        for rank, rows in enumerate(exchange.documents(own))
        for moment, found, expected, message in rows
    ]
    if not seen:
        return
    moment, _, found, expected, message = min(seen)
    ranks = sorted({rank for other, rank, *_ in seen if other == moment})
    words = _WORDS[Moment(moment)]
    said = message or words.message.format(found=found, expected=expected)
    where = "" if len(ranks) == exchange.size else f" (rank {', '.join(map(str, ranks))} of {exchange.size})"
    raise WrongMoment(
        f"wrong moment, {words.name}: {said}{where}",
        hint=words.hint,
        moment=words.name,
        found=found,
        expected=expected,
        ranks=ranks,
    )
