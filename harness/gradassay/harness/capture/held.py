"""Pieces where they are sketched, checked against the parameters that they are said to be of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gradassay.goldens.errors import Incomplete, UsageError
from gradassay.goldens.header import Parameter
from gradassay.goldens.sketch import extent_of
from gradassay.harness.capture.change import UNIT_ROUNDOFF
from gradassay.harness.capture.device import choice
from gradassay.harness.capture.piece import Piece


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """A piece where it is sketched. index: the parameter's place in the problem's order. values: on the CPU, as float32,
    float64 or, as uint16, bits of bfloat16; or a tensor that stays on its GPU; None where there is no gradient. dtype: of the
    gradient itself, None where there is none.
    """

    index: int
    total: int
    replica: int
    runs: NDArray[np.int64]
    values: NDArray[np.generic] | Tensor | None
    dtype: torch.dtype | None

    @property
    def nothing(self) -> bool:
        """Whether this is no part of a parameter that has elements."""
        return not len(self.runs) and self.total > 0


def places_of(parameters: tuple[Parameter, ...]) -> dict[str, int]:
    """Place of every parameter by name."""
    return {parameter.name: index for index, parameter in enumerate(parameters)}


def held(pieces: list[Piece], parameters: tuple[Parameter, ...], places: Mapping[str, int] | None = None) -> list[Held]:
    """The pieces where they are sketched, by parameter. Raises Incomplete for names and sizes that do not fit the problem.

    places: `places_of(parameters)`, for those who ask often.
    """
    places = places_of(parameters) if places is None else places
    found = []
    for piece in pieces:
        index = places.get(piece.name)
        if index is None:
            raise Incomplete(
                f"a gradient was captured for {piece.name!r}, which is no parameter of the problem",
                hint="map the model's own parameter names to the problem's canonical ones",
                parameter=piece.name,
            )
        total = parameters[index].numel
        least, most, elements = extent_of(piece.runs)
        if piece.values is not None and piece.values.numel() != elements:
            raise Incomplete(
                f"{piece.name}: {piece.values.numel()} values for a piece of {elements} elements",
                hint=f"its canonical shape is {list(parameters[index].shape)}",
                parameter=piece.name,
            )
        if elements and (least < 0 or most > total):
            raise Incomplete(
                f"{piece.name}: a piece reaches to element {most} of {total}",
                hint=f"its canonical shape is {list(parameters[index].shape)}",
                parameter=piece.name,
            )
        dtype = None if piece.values is None else piece.values.dtype
        if dtype is not None and dtype not in UNIT_ROUNDOFF:
            raise UsageError(
                f"{piece.name}: a gradient of element type {str(dtype).removeprefix('torch.')}",
                hint=f"known: {', '.join(str(one).removeprefix('torch.') for one in UNIT_ROUNDOFF)}",
                parameter=piece.name,
            )
        stays = piece.values is not None and choice.stays(piece.values)
        values = piece.values if stays or piece.values is None else as_array(piece.values)
        found.append(
            Held(
                index=index,
                total=total,
                replica=piece.replica,
                runs=np.ascontiguousarray(piece.runs, dtype=np.int64),
                values=values,
                dtype=dtype,
            )
        )
    return found


def as_array(values: Tensor) -> NDArray[np.generic]:
    """The values on the CPU as float32, float64 or, for bfloat16, their bits as uint16."""
    if values.requires_grad:
        values = values.detach()
    if not values.is_cpu or not values.is_contiguous():
        values = values.cpu().contiguous()
    if values.dtype == torch.bfloat16:
        bits: NDArray[np.generic] = values.view(torch.int16).numpy().view(np.uint16)
        return bits
    if values.dtype not in (torch.float32, torch.float64):
        values = values.float()
    array: NDArray[np.generic] = values.numpy()
    return array


def widened(values: NDArray[np.generic] | Tensor) -> NDArray[np.float32]:
    """The same values on the CPU, as float32."""
    values = as_array(values) if isinstance(values, Tensor) else values
    if values.dtype == np.uint16:
        return (values.astype(np.uint32) << np.uint32(16)).view(np.float32)
    return values.astype(np.float32)
