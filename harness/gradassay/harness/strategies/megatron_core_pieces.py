"""Reading what a Megatron-Core rank holds, without gathering any."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from gradassay.harness.capture.piece import Piece, stretch
from gradassay.harness.mesh import Ranks


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """Elements [start, start + length) of a flattened parameter, which this rank's optimizer updates.

    replica: the number of this copy.
    """

    name: str
    parameter: Any
    start: int
    length: int
    replica: int

    def of(self, tensor: Tensor) -> Tensor:
        """The share of a tensor that has the parameter's shape."""
        return tensor.detach().reshape(-1)[self.start : self.start + self.length]

    def piece(self, values: Tensor | None) -> Piece:
        """`values` of this share."""
        return stretch(self.name, values, start=self.start, length=self.length, replica=self.replica)


def shares(model: Any, names: Mapping[int, str], ranks: Ranks) -> tuple[Share, ...]:
    """What this rank holds of the trained parameters of a `DistributedDataParallel`. names: by id of the parameter.

    With the distributed optimizer a bucket is cut evenly among the ranks of its group, whatever parameters lie there, and
    only this rank's cut is reduced; else every rank of the group holds all.
    """
    found: list[Share] = []
    for buffers, rank in ((model.buffers, ranks.dp_rank), (model.expert_parallel_buffers, ranks.edp_rank)):
        for buffer in buffers:
            found += _of(buffer, names, rank, cut=model.ddp_config.use_distributed_optimizer)
    return tuple(found)


def _of(buffer: Any, names: Mapping[int, str], rank: int, *, cut: bool) -> Iterator[Share]:
    group = buffer.data_parallel_group
    for parameter, (first, end, number) in buffer.param_index_map.items():
        begin, stop, replica = first, end, rank
        if cut:
            bucket = buffer.buckets[number]
            size = bucket.grad_data.numel() // group.size()
            begin = max(first, bucket.offset + group.rank() * size)
            stop = min(end, bucket.offset + (group.rank() + 1) * size)
            replica = rank // group.size()
        if stop > begin:
            name = names[id(parameter)]
            yield Share(name=name, parameter=parameter, start=begin - first, length=stop - begin, replica=replica)
