"""Signs of a wrong moment in the gradient itself: cleared, clipped, or never reduced."""

from __future__ import annotations

from collections.abc import Sequence
from math import floor, log, log10

import numpy as np
import torch
from numpy.typing import NDArray

from gradassay.goldens.errors import Incomplete, WrongMoment
from gradassay.goldens.header import Parameter
from gradassay.goldens.record import Capture
from gradassay.harness.capture.change import UNIT_ROUNDOFF

_LEAST_NORM = 1e-6
"""What `torch.nn.utils.clip_grad_norm_` adds to the norm before it divides by it."""
_RARE = 1e-3
"""Coincidences that are more frequent than this are no sign of clipping."""
_OF_NORM = 64
"""Unit roundoffs by which the total norm of large tensors, computed in their own element type, may be off."""
_SHARING = 3
"""As many parameters, or all of fewer, have the same largest magnitude where values were clipped."""
_DIFFERING = 16
"""Copies differ by more than rounding beyond this many unit roundoffs."""
_ANYWAY = "if it is not, capture(model, anyway=True) records it as it is"


def check_cleared(capture: Capture) -> None:
    """Raises WrongMoment where no parameter has a gradient, or all of them are zero."""
    if not capture.present.any():
        text = f"none of {len(capture.present)} parameters has a gradient"
    elif not capture.norm2.any() and not capture.nonfinite.any():
        text = f"the gradients of all {int(capture.present.sum())} parameters are zero"
    else:
        return
    raise WrongMoment(
        f"wrong moment, cleared: {text}",
        hint=f"capture after the last backward pass and before zero_grad(); {_ANYWAY}",
        moment="cleared",
    )


def check_clipped(capture: Capture, dtype: torch.dtype) -> None:
    """Raises WrongMoment where the total norm, or the largest magnitude of many parameters, is the round number (1, 2 or 5
    times a power of ten) that clipping to it leaves. dtype: of the gradients.
    """
    total = float(np.sqrt(capture.norm2.sum()))
    if not np.isfinite(total) or total == 0 or capture.nonfinite.any():
        return
    limit = _near(total)
    rounding = _OF_NORM * UNIT_ROUNDOFF.get(dtype, 2.0**-24)
    # A norm n >= limit becomes limit * n / (n + 1e-6), but for the rounding of n itself and of the scaling.
    low, high = limit / (1 + _LEAST_NORM / limit) * (1 - rounding), limit * (1 + rounding)
    chance = 3 * log(high / low) / log(10)
    if low <= total <= high and chance < _RARE:
        raise WrongMoment(
            f"wrong moment, clipped: the total norm is {total:.9g}, what clip_grad_norm_ to {limit:g} leaves; "
            f"by chance that is so once in {_times(1 / chance)} times",
            hint=f"capture before clipping, or say stage='clipped'; {_ANYWAY}",
            moment="clipped",
            norm=total,
            max_norm=limit,
            chance=chance,
        )
    _check_values(capture.absmax, dtype)


def _check_values(absmax: NDArray[np.float64], dtype: torch.dtype) -> None:
    largest = float(absmax.max())
    limit = _near(largest)
    if float(torch.tensor(limit, dtype=torch.float64).to(dtype)) != largest:
        return
    sharing, of = int((absmax == largest).sum()), int((absmax > 0).sum())
    if sharing < min(_SHARING, of) or of < 2:
        return
    # A largest magnitude falls on any of the numbers that the element type has in its octave.
    chance = max(1e-99, (2 * UNIT_ROUNDOFF.get(dtype, 2.0**-24)) ** min(sharing - 1, 12))
    if chance < _RARE:
        raise WrongMoment(
            f"wrong moment, clipped: the largest magnitude of {sharing} of {of} parameters is {limit:g}, what "
            f"clip_grad_value_ to {limit:g} leaves; by chance that is so once in {_times(1 / chance)} times",
            hint=f"capture before clipping, or say stage='clipped'; {_ANYWAY}",
            moment="clipped",
            value=limit,
            parameters=sharing,
            chance=chance,
        )


def check_reduced(capture: Capture, parameters: Sequence[Parameter], dtype: torch.dtype) -> None:
    """Raises WrongMoment where each parameter that ranks hold copies of differs from the first rank, and from every
    rank to the next, by more than rounding. parameters: as the capture found them.
    """
    copied = [
        index
        for index, parameter in enumerate(parameters)
        if parameter.shards is None and capture.present[index] and (capture.norm2[index] or capture.absmax[index])
    ]
    if capture.rank_sketch is None or not copied:
        return
    allowed = _DIFFERING * UNIT_ROUNDOFF.get(dtype, 2.0**-24)
    ranks = 0
    for index in copied:
        rows = capture.rank_sketch[:, index]
        rows = rows[rows.any(axis=1)]
        if not len(rows):
            return
        if len(rows) == 1:
            continue
        apart = np.minimum(np.linalg.norm(rows[1:] - rows[0], axis=1), np.linalg.norm(rows[1:] - rows[:-1], axis=1))
        if apart.min() <= allowed * np.linalg.norm(rows, axis=1).max():
            return
        ranks = max(ranks, len(rows))
    raise WrongMoment(
        f"wrong moment, unreduced: each of {len(copied)} parameters has another gradient on every one of {ranks} ranks",
        hint="capture after the gradients were reduced; where the reduction itself is at fault, capture(model, anyway=True) "
        "records every rank's own",
        moment="unreduced",
        parameters=len(copied),
        ranks=ranks,
    )


def check_one_copy(capture: Capture, parameters: Sequence[Parameter], dtype: torch.dtype) -> None:
    """Raises Incomplete where tensor-parallel ranks of the only data-parallel rank have copies that differ by more than
    rounding: a record has no place for them.
    """
    if capture.rank_sketch is None:
        return
    allowed = _DIFFERING * UNIT_ROUNDOFF.get(dtype, 2.0**-24)
    apart = np.linalg.norm(capture.rank_sketch[0] - capture.sketch, axis=1) * capture.rank_sketch[0].any(axis=1)
    names = [parameters[index].name for index in np.flatnonzero(apart > allowed * np.sqrt(capture.norm2)).tolist()]
    if names:
        raise Incomplete(
            f"tensor-parallel ranks hold different gradients of {len(names)} parameters of which each has a copy: "
            f"{', '.join(names[:4])}",
            hint="these copies drift apart; reduce them, or record the first rank's by capture(model, anyway=True)",
            parameters=names,
        )


def _near(value: float) -> float:
    """The number 1, 2 or 5 times a power of ten that is nearest to a positive one."""
    power = floor(log10(value))
    return min((float(f"{digit}e{power}") for digit in (1, 2, 5, 10)), key=lambda limit: abs(limit / value - 1))


def _times(number: float) -> str:
    return f"{number:,.0f}" if number < 1e7 else f"{number:.0e}"
