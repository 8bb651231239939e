"""Process groups and meshes of a layout, the same contiguous ep groups that DeepSpeed and Megatron make."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch.distributed as dist

from gradassay.goldens.layout import Layout

if TYPE_CHECKING:
    from torch.distributed import ProcessGroup


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranks:
    """This rank's place in a layout of data-parallel ranks, and its groups (None where the group is this rank alone).

    world: every rank of the cell. ep: ranks that hold the other experts, contiguous. edp: ranks that hold the same
    experts.
    """

    layout: Layout
    dp_rank: int
    world: ProcessGroup | None = None
    ep: ProcessGroup | None = None
    edp: ProcessGroup | None = None

    @property
    def ep_rank(self) -> int:
        """Place in the ep group: dp_rank % ep."""
        return self.dp_rank % self.layout.ep

    @property
    def edp_rank(self) -> int:
        """Place in the edp group: dp_rank // ep."""
        return self.dp_rank // self.layout.ep


def join(layout: Layout, *, experts: bool = True) -> Ranks:
    """This rank's groups; collective over the default process group. experts: make ep and edp groups where ep > 1."""
    if not dist.is_initialized():
        assert layout.dp == 1, "a layout of several ranks needs a process group"
        return Ranks(layout=layout, dp_rank=0)
    rank = dist.get_rank()
    ep = edp = None
    if experts and layout.ep > 1:
        for first in range(0, layout.dp, layout.ep):
            group = dist.new_group(list(layout.ep_group(first)))
            ep = group if rank in layout.ep_group(first) else ep
        for first in range(layout.ep):
            group = dist.new_group(list(layout.edp_group(first)))
            edp = group if rank in layout.edp_group(first) else edp
    return Ranks(layout=layout, dp_rank=rank, world=dist.group.WORLD, ep=ep, edp=edp)
