"""A rank's place in a layout of data-parallel ranks, each of them one or several tensor-parallel ones."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import torch.distributed as dist
from torch import Tensor
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor

from gradassay.goldens.layout import Layout


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """rank: in the whole process group. tp_stride: by how much the numbers of neighbouring tensor-parallel ranks differ."""

    layout: Layout
    rank: int = 0
    tp_stride: int = 1

    @classmethod
    def of(cls, layout: Layout, parameters: Iterable[Tensor]) -> Place:
        """This process's place. Tensor-parallel ranks are neighbours unless the mesh of a parameter says otherwise."""
        rank = dist.get_rank() if dist.is_initialized() else 0
        if layout.tp == 1:
            return cls(layout=layout, rank=rank)
        strides = (_stride(parameter, layout.tp) for parameter in parameters)
        return cls(layout=layout, rank=rank, tp_stride=next((stride for stride in strides if stride), 1))

    @property
    def tp_rank(self) -> int:
        """Place among the ranks that share one data-parallel rank."""
        return self.rank // self.tp_stride % self.layout.tp

    @property
    def dp_rank(self) -> int:
        """Number of the data-parallel rank."""
        return self.rank // (self.tp_stride * self.layout.tp) * self.tp_stride + self.rank % self.tp_stride

    @property
    def ep_rank(self) -> int:
        """Place in the contiguous ep group."""
        return self.dp_rank % self.layout.ep

    def tensor_axes(self, mesh: DeviceMesh) -> tuple[int, ...]:
        """Axes of a mesh along which nothing but the tensor-parallel rank changes."""
        if self.layout.tp == 1:
            return ()
        return tuple(axis for axis in range(mesh.ndim) if _line(mesh, axis) == self._tp_line())

    def _tp_line(self) -> tuple[int, ...]:
        first = self.rank - self.tp_rank * self.tp_stride
        return tuple(range(first, first + self.layout.tp * self.tp_stride, self.tp_stride))


def _stride(parameter: Tensor, tp: int) -> int:
    """What the mesh of a parameter says of tensor-parallel ranks, 0 for nothing."""
    if tp == 1 or not isinstance(parameter, DTensor):
        return 0
    mesh = parameter.device_mesh
    if mesh.mesh_dim_names and "tp" in mesh.mesh_dim_names:
        line = _line(mesh, mesh.mesh_dim_names.index("tp"))
        return line[1] - line[0] if len(line) == tp else 0
    return 0


def _line(mesh: DeviceMesh, axis: int) -> tuple[int, ...]:
    """Ranks along an axis of a mesh, this one among them."""
    return tuple(dist.get_process_group_ranks(mesh.get_group(axis)))
