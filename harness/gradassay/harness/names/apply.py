"""Pieces of a framework's tensor -> pieces of a canonical parameter, on the rank that holds them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gradassay.harness.capture.local import block_runs
from gradassay.harness.capture.piece import Piece
from gradassay.harness.names.boxes import Boxes
from gradassay.harness.names.view import View


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """Where a canonical parameter of this name lies in a framework's tensor."""

    name: str
    view: View


def part_of(piece: Piece, held: Boxes, source: Source) -> Piece | None:
    """What `piece` holds of the canonical parameter, None for nothing; values keep their element type and device.

    held: the piece's runs as boxes of the view's sizes.
    """
    view = source.view
    order = view.order
    low = np.maximum(held.origin, view.first)
    high = np.minimum(held.origin + held.extent, np.add(view.first, view.extent))
    shape = tuple(view.extent[factor] for factor in order)
    runs, values = [], []
    for index in np.flatnonzero((low < high).all(axis=1)):
        first, size = low[index] - view.first, high[index] - low[index]
        runs.append(block_runs(shape, tuple(first[list(order)].tolist()), tuple(size[list(order)].tolist())))
        if piece.values is not None:
            extent = held.extent[index].tolist()
            before = int(held.before[index])
            block = piece.values[before : before + int(np.prod(extent))].reshape(extent)
            inner = tuple(
                slice(begin, end)
                for begin, end in zip(
                    (low[index] - held.origin[index]).tolist(),
                    (high[index] - held.origin[index]).tolist(),
                    strict=True,
                )
            )
            values.append(block[inner].permute(order).reshape(-1))
    if not runs and 0 not in view.shape:
        return None
    return Piece(
        name=source.name,
        values=None if piece.values is None else _together(values, piece.values),
        runs=_continued(np.concatenate(runs or [np.empty((0, 2), dtype=np.int64)])),
        replica=piece.replica,
    )


def _together(values: list[Tensor], like: Tensor) -> Tensor:
    if len(values) == 1:
        return values[0]
    return torch.cat(values) if values else like[:0]


def _continued(runs: NDArray[np.int64]) -> NDArray[np.int64]:
    """Runs that continue the one before them as one with it."""
    if len(runs) < 2:
        return runs
    firsts = np.flatnonzero(np.concatenate(([True], runs[1:, 0] != runs[:-1].sum(axis=1))))
    return np.stack((runs[firsts, 0], np.add.reduceat(runs[:, 1], firsts)), axis=1)
