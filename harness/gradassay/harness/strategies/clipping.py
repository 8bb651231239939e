"""Clipping by the norm of a whole model that is spread over ranks."""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.distributed as dist

from gradassay.harness.capture.piece import Piece
from gradassay.harness.mesh import Ranks

_LEAST_NORM = 1e-6


def clip_pieces(pieces: Sequence[Piece], max_norm: float, ranks: Ranks, device: torch.device) -> None:
    """Scales the pieces' values in place by `max_norm / (total norm + 1e-6)` where that is below 1; collective.

    The formula is that of `torch.nn.utils.clip_grad_norm_`, which sees one rank only; here every element of the model
    counts once, whichever rank holds it.
    """
    total = torch.zeros((), dtype=torch.float64, device=device)
    for piece in pieces:
        if piece.values is not None and piece.replica == 0:
            total += piece.values.double().square().sum()
    if ranks.world is not None:
        dist.all_reduce(total, group=ranks.world)
    coefficient = min(1.0, max_norm / (float(total.sqrt()) + _LEAST_NORM))
    for piece in pieces:
        if piece.values is not None:
            piece.values.mul_(coefficient)
