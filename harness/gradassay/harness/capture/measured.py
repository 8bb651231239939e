"""Pieces as numbers: sketches, and a digest that tells copies apart to the last bit."""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gradassay.goldens.errors import Incomplete
from gradassay.goldens.header import Parameter
from gradassay.goldens.sketch import Measurement, add_runs, extent_of, measure_runs
from gradassay.harness.capture.fingerprint import fingerprint
from gradassay.harness.capture.piece import Piece


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """A piece on the CPU. index: the parameter's place in the problem's order. values: float32, float64 or, as uint16,
    bits of bfloat16; None where there is no gradient. alone: known to be the only copy.
    """

    index: int
    total: int
    replica: int
    runs: NDArray[np.int64]
    values: NDArray[np.generic] | None
    alone: bool = False

    def digest(self) -> int:
        """A number of the piece's place and, where it has to be told from another copy, its bytes: checksums, since copies
        differ by accident and not on purpose.
        """
        content = 0 if self.values is None or self.alone else fingerprint(self.values)
        return content ^ zlib.crc32(np.ascontiguousarray(self.runs).data)

    def measure(self) -> Measurement | None:
        """Sketch, sum of squares, largest magnitude and non-finite count; None where there is no gradient."""
        return None if self.values is None else measure_runs(self.values, self.runs, self.total)

    def add(self, sketch: NDArray[np.float64], totals: NDArray[np.float64]) -> bool:
        """Adds the piece to the sketch [1024] and totals [16, 3] of its parameter, all but the sums of squares; False where
        there is no gradient.
        """
        if self.values is None:
            return False
        add_runs(self.values, self.runs, self.total, sketch, totals, squares=False)
        return True


def places_of(parameters: tuple[Parameter, ...]) -> dict[str, int]:
    """Place of every parameter by name."""
    return {parameter.name: index for index, parameter in enumerate(parameters)}


def held(pieces: list[Piece], parameters: tuple[Parameter, ...], places: Mapping[str, int] | None = None) -> list[Held]:
    """The pieces on the CPU, by parameter. Raises Incomplete for names and sizes that do not fit the problem.

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
        values = None if piece.values is None else as_array(piece.values)
        found.append(
            Held(
                index=index,
                total=total,
                replica=piece.replica,
                runs=piece.runs,
                values=values,
                alone=piece.alone,
            )
        )
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
