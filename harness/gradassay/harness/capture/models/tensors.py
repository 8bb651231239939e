"""Pieces of whole tensors and of DTensors, and the copies that they belong to."""

from __future__ import annotations

import torch.distributed as dist
from torch import Tensor
from torch.distributed.tensor import DTensor, Partial, Replicate
from torch.distributed.tensor._utils import compute_local_shape_and_global_offset

from gradassay.goldens.errors import UsageError
from gradassay.harness.capture.local import block_runs, local_piece
from gradassay.harness.capture.models.place import Place
from gradassay.harness.capture.piece import Piece, whole


def piece_of(name: str, parameter: Tensor, values: Tensor | None, place: Place) -> Piece:
    """This rank's piece of `values`, a gradient or the parameter itself; its replica is that of `copy_of`.

    A gradient that is a partial sum along tensor-parallel ranks, as sequence parallelism leaves it, is added up, which is
    what clipping and optimizers do with it. Collective there.
    """
    if isinstance(values, DTensor) and is_partial(values):
        assert isinstance(parameter, DTensor), f"{name} is whole, its gradient is not"
        values = values.redistribute(parameter.device_mesh, parameter.placements)
    holder = values if isinstance(values, DTensor) else parameter
    piece = local_piece(name, parameter, values)
    return Piece(name=name, values=piece.values, runs=piece.runs, replica=copy_of(holder, place))


def copy_of(tensor: Tensor, place: Place) -> int:
    """A number that the ranks of one copy of `tensor` share, and no others do."""
    if not isinstance(tensor, DTensor):
        return place.rank
    mesh = tensor.device_mesh
    coordinate = mesh.get_coordinate()
    assert coordinate is not None, "this rank is not part of the tensor's mesh"
    copies, number = 1, 0
    for axis, placement in enumerate(tensor.placements):
        if isinstance(placement, Replicate):
            number = number * mesh.size(axis) + coordinate[axis]
            copies *= mesh.size(axis)
    # Meshes that are parts of a larger one hold copies, or other parameters: their smallest rank tells them apart.
    return number if mesh.size() == dist.get_world_size() else int(mesh.mesh.min()) * copies + number


def is_partial(gradient: Tensor | None, *, beside: tuple[int, ...] = ()) -> bool:
    """Whether a gradient is a partial sum along a mesh axis that is not in `beside`."""
    return isinstance(gradient, DTensor) and any(
        placement.is_partial() and axis not in beside for axis, placement in enumerate(gradient.placements)
    )


def local_pieces(name: str, gradient: Tensor, place: Place) -> list[Piece]:
    """What this rank adds to its data-parallel rank's own gradient, [] for nothing.

    Where tensor-parallel ranks have copies the first of them counts, where they have partial sums each.
    """
    if not isinstance(gradient, DTensor):
        return [whole(name, gradient, numel=gradient.numel())] if place.tp_rank == 0 else []
    mesh, coordinate = gradient.device_mesh, gradient.device_mesh.get_coordinate()
    assert coordinate is not None, "this rank is not part of the gradient's mesh"
    for axis in place.tensor_axes(mesh):
        placement = gradient.placements[axis]
        if isinstance(placement, Replicate) and coordinate[axis]:
            return []
        if isinstance(placement, Partial) and placement.reduce_op != "sum":
            raise UsageError(
                f"{name}: its local gradient is a partial {placement.reduce_op} along tensor-parallel ranks",
                hint="self-assay adds up sums only",
            )
    shape, offset = compute_local_shape_and_global_offset(gradient.shape, mesh, gradient.placements)
    values = gradient.to_local().detach().reshape(-1)
    return [Piece(name=name, values=values, runs=block_runs(tuple(gradient.shape), offset, shape))]
