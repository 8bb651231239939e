"""Pieces as numbers: sketches, and a digest that tells copies apart to the last bit."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gradassay.goldens.errors import Incomplete
from gradassay.goldens.header import Parameter
from gradassay.goldens.sketch import Measurement, measure_runs
from gradassay.harness.capture.piece import Piece


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """A piece on the CPU. index: the parameter's place in the problem's order. values: float32, float64 or, as uint16,
    bits of bfloat16; None where there is no gradient.
    """

    index: int
    total: int
    replica: int
    runs: NDArray[np.int64]
    values: NDArray[np.generic] | None

    def digest(self) -> int:
        """64 bits of the piece's place and bytes, as a signed integer."""
        found = hashlib.blake2b(np.ascontiguousarray(self.runs).data, digest_size=8)
        if self.values is not None:
            found.update(np.ascontiguousarray(self.values).data)
        return int.from_bytes(found.digest(), "little", signed=True)

    def measure(self) -> Measurement | None:
        """Sketch, sum of squares, largest magnitude and non-finite count; None where there is no gradient."""
        return None if self.values is None else measure_runs(self.values, self.runs, self.total)


def held(pieces: list[Piece], parameters: tuple[Parameter, ...]) -> list[Held]:
    """The pieces on the CPU, by parameter. Raises Incomplete for names and sizes that do not fit the problem."""
    places = {parameter.name: index for index, parameter in enumerate(parameters)}
    found = []
    for piece in pieces:
        index = places.get(piece.name)
        if index is None:
            raise Incomplete(
                f"a gradient was captured for {piece.name!r}, which is no parameter of the problem",
                hint="map the model's own parameter names to the problem's canonical ones",
                parameter=piece.name,
            )
        elements, total = int(piece.runs[:, 1].sum()), parameters[index].numel
        if piece.values is not None and piece.values.numel() != elements:
            raise Incomplete(
                f"{piece.name}: {piece.values.numel()} values for a piece of {elements} elements",
                hint=f"its canonical shape is {list(parameters[index].shape)}",
                parameter=piece.name,
            )
        if elements and (piece.runs.min() < 0 or int(piece.runs.sum(axis=1).max()) > total):
            raise Incomplete(
                f"{piece.name}: a piece reaches to element {int(piece.runs.sum(axis=1).max())} of {total}",
                hint=f"its canonical shape is {list(parameters[index].shape)}",
                parameter=piece.name,
            )
        values = None if piece.values is None else as_array(piece.values)
        found.append(Held(index=index, total=total, replica=piece.replica, runs=piece.runs, values=values))
    return found


def as_array(values: Tensor) -> NDArray[np.generic]:
    """The values on the CPU as float32, float64 or, for bfloat16, their bits as uint16."""
    values = values.detach().cpu().contiguous()
    if values.dtype == torch.bfloat16:
        bits: NDArray[np.generic] = values.view(torch.int16).numpy().view(np.uint16)
        return bits
    array: NDArray[np.generic] = (values if values.dtype == torch.float64 else values.float()).numpy()
    return array


def widened(values: NDArray[np.generic]) -> NDArray[np.float32]:
    """The same values as float32."""
    if values.dtype == np.uint16:
        return (values.astype(np.uint32) << np.uint32(16)).view(np.float32)
    return values.astype(np.float32)
