"""Pieces as numbers: sketches, and a digest that tells copies apart to the last bit."""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gradassay.goldens.errors import Incomplete
from gradassay.goldens.header import Parameter
from gradassay.goldens.sketch import SEGMENTS, add_checked, extent_of
from gradassay.harness.capture.device import choice
from gradassay.harness.capture.fingerprint import fingerprint
from gradassay.harness.capture.piece import Piece


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """A piece where it is sketched. index: the parameter's place in the problem's order. values: on the CPU, as float32,
    float64 or, as uint16, bits of bfloat16; or a tensor that stays on its GPU; None where there is no gradient. alone: known
    to be the only copy.
    """

    index: int
    total: int
    replica: int
    runs: NDArray[np.int64]
    values: NDArray[np.generic] | Tensor | None
    alone: bool = False

    def add(self, sketch: NDArray[np.float64], totals: NDArray[np.float64]) -> None:
        """Adds values on the CPU to the sketch [1024] and totals [3] of the parameter."""
        assert isinstance(self.values, np.ndarray)
        add_checked(self.values, self.runs, self.total, sketch, totals)


def digests(pieces: Sequence[Held]) -> list[int]:
    """Of every piece a number of its place and, where it has to be told from another copy, its bytes: checksums, since
    copies differ by accident and not on purpose.
    """
    there = [piece.values for piece in pieces if isinstance(piece.values, Tensor) and not piece.alone]
    found = iter(choice.fingerprints(there) if there else ())
    numbers = []
    for piece in pieces:
        content = 0
        if piece.values is not None and not piece.alone:
            content = next(found) if isinstance(piece.values, Tensor) else fingerprint(piece.values)
        numbers.append(content ^ zlib.crc32(np.ascontiguousarray(piece.runs).data))
    return numbers


def measure_into(
    sketches: NDArray[np.float64], totals: NDArray[np.float64], rows: Sequence[int], pieces: Sequence[Held]
) -> None:
    """Adds every piece that has a gradient to its row of sketches [n, 1024] and of totals [n, 3]."""
    there: dict[torch.device, list[tuple[int, Held]]] = {}
    for row, piece in zip(rows, pieces, strict=True):
        if isinstance(piece.values, Tensor):
            there.setdefault(piece.values.device, []).append((row, piece))
        elif piece.values is not None:
            piece.add(sketches[row], totals[row])
    for device, placed in there.items():
        numbers = choice.numbers(len(placed), device)
        for place, (_, piece) in enumerate(placed):
            assert isinstance(piece.values, Tensor)
            numbers.add(place, piece.values, piece.runs, piece.total)
        for (row, _), sketch, parts in zip(placed, *numbers.read(), strict=True):
            sketches[row] += sketch
            combine(totals[row], parts.reshape(-1, SEGMENTS, 3))


def combine(totals: NDArray[np.float64], parts: NDArray[np.float64]) -> None:
    """Adds what several adders found, [n, ..., 16, 3] by segment, to totals [..., 3]."""
    totals[..., 0] += parts[..., 0].sum(axis=(0, -1))
    totals[..., 1] = np.maximum(totals[..., 1], parts[..., 1].max(axis=(0, -1)))
    totals[..., 2] += parts[..., 2].sum(axis=(0, -1))


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
        stays = piece.values is not None and choice.stays(piece.values)
        values = piece.values if stays or piece.values is None else as_array(piece.values)
        found.append(
            Held(
                index=index,
                total=total,
                replica=piece.replica,
                runs=np.ascontiguousarray(piece.runs, dtype=np.int64),
                values=values,
                alone=piece.alone,
            )
        )
    return found


def as_array(values: Tensor) -> NDArray[np.generic]:
    """The values on the CPU as float32, float64 or, for bfloat16, their bits as uint16."""
    values = values.detach()
    if not values.is_cpu or not values.is_contiguous():
        values = values.cpu().contiguous()
    if values.dtype == torch.bfloat16:
        bits: NDArray[np.generic] = values.view(torch.int16).numpy().view(np.uint16)
        return bits
    array: NDArray[np.generic] = (values if values.dtype == torch.float64 else values.float()).numpy()
    return array


def widened(values: NDArray[np.generic] | Tensor) -> NDArray[np.float32]:
    """The same values on the CPU, as float32."""
    values = as_array(values) if isinstance(values, Tensor) else values
    if values.dtype == np.uint16:
        return (values.astype(np.uint32) << np.uint32(16)).view(np.float32)
    return values.astype(np.float32)
