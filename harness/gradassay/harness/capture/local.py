"""From a parameter as a strategy left it to this rank's piece of its gradient."""

from __future__ import annotations

from math import prod

import numpy as np
from numpy.typing import NDArray
from torch import Tensor
from torch.distributed.tensor import DTensor, Replicate
from torch.distributed.tensor._utils import compute_local_shape_and_global_offset

from gradassay.goldens.errors import UsageError
from gradassay.harness.capture.piece import Piece, whole


def local_piece(name: str, parameter: Tensor, gradient: Tensor | None, *, replica: int = 0) -> Piece:
    """The piece of a parameter's gradient (or of its own values, given as such): of the local shard for a DTensor, else
    the whole, as copy `replica`.

    Raises UsageError for a DTensor gradient that is a partial sum, which is not reduced yet.
    """
    if not isinstance(parameter, DTensor):
        return whole(name, gradient, numel=parameter.numel(), replica=replica)
    if isinstance(gradient, DTensor) and any(placement.is_partial() for placement in gradient.placements):
        raise UsageError(
            f"{name}: its gradient is a partial sum ({gradient.placements})",
            hint="capture after the gradient has been reduced",
        )
    holder = gradient if isinstance(gradient, DTensor) else parameter
    shape, offset = compute_local_shape_and_global_offset(holder.shape, holder.device_mesh, holder.placements)
    values = gradient.to_local().detach().reshape(-1) if isinstance(gradient, DTensor) else None
    return Piece(name=name, values=values, runs=block_runs(holder.shape, offset, shape), replica=_copy(holder))


def _copy(tensor: DTensor) -> int:
    """Number of this rank's copy: its place along the mesh axes that hold replicas, row-major."""
    coordinate = tensor.device_mesh.get_coordinate()
    assert coordinate is not None, "this rank is not part of the tensor's mesh"
    number = 0
    for axis, placement in enumerate(tensor.placements):
        if isinstance(placement, Replicate):
            number = number * tensor.device_mesh.size(axis) + coordinate[axis]
    return number


def block_runs(shape: tuple[int, ...], offset: tuple[int, ...], extent: tuple[int, ...]) -> NDArray[np.int64]:
    """[n, 2] int64: the runs of an axis-aligned block of a row-major tensor, in the block's own row-major order.

    shape: the whole tensor's. offset, extent: the block's first index and size along every dimension.
    """
    if prod(extent) == 0:
        return np.empty((0, 2), dtype=np.int64)
    inner = len(shape)
    while inner > 0 and extent[inner - 1] == shape[inner - 1]:
        inner -= 1
    # Dimensions from `inner` on are whole; the one before them is one stretch, those further out give a run each.
    outer = max(inner - 1, 0)
    strides = [prod(shape[axis + 1 :]) for axis in range(len(shape))]
    starts = np.array([sum(first * stride for first, stride in zip(offset, strides, strict=True))], dtype=np.int64)
    for axis in range(outer):
        starts = np.add.outer(starts, np.arange(extent[axis], dtype=np.int64) * strides[axis]).reshape(-1)
    return np.stack((starts, np.full_like(starts, prod(extent[outer:]))), axis=1)
