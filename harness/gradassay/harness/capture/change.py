"""What an update of the parameters comes to, as a gradient."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch
from numpy.typing import NDArray

from gradassay.harness.capture.piece import Piece

UNIT_ROUNDOFF = {torch.float64: 2.0**-53, torch.float32: 2.0**-24, torch.bfloat16: 2.0**-8, torch.float16: 2.0**-11}
"""Largest relative error of rounding to an element type."""


def kept(weights: Sequence[Piece]) -> list[Piece]:
    """Copies of the pieces, which an update in place leaves alone."""
    return [
        piece if piece.values is None else replace(piece, values=piece.values.detach().clone()) for piece in weights
    ]


def changes(before: Sequence[Piece], after: Sequence[Piece], learning_rate: float) -> list[Piece]:
    """(before - after) / learning_rate, in float64: what SGD took for the gradient."""
    new = {piece.name: piece for piece in after}
    found = []
    for piece in before:
        now = new[piece.name]
        assert np.array_equal(now.runs, piece.runs), f"{piece.name} lies elsewhere after the update"
        if piece.values is None or now.values is None:
            found.append(replace(piece, values=None))
        else:
            found.append(replace(piece, values=(piece.values.double() - now.values.double()) / learning_rate))
    return found


def rounding(weights: Sequence[Piece], norm2: NDArray[np.float64], learning_rate: float) -> NDArray[np.float64]:
    """[P]: how far the rounding of the updated parameters may move `changes`, as a norm; norm2: [P] of the parameters."""
    roundoff = max((UNIT_ROUNDOFF[piece.values.dtype] for piece in weights if piece.values is not None), default=0.0)
    found: NDArray[np.float64] = roundoff * np.sqrt(norm2) / learning_rate
    return found
