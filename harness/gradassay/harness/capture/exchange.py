"""What ranks tell each other: small tables by all-gather, sketches by one all-reduce."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from numpy.typing import NDArray

# What most tables have, in numbers of 8 bytes, goes along with their length.
_HEAD = 2048


@dataclass(frozen=True, slots=True, kw_only=True)
class Exchange:
    """The ranks of one cell; group None is this process alone. device: where collectives want their tensors."""

    group: dist.ProcessGroup | None
    device: torch.device

    @property
    def rank(self) -> int:
        """This process's number in the group."""
        return 0 if self.group is None else dist.get_rank(self.group)

    @property
    def size(self) -> int:
        """How many processes there are."""
        return 1 if self.group is None else dist.get_world_size(self.group)

    def tables(self, table: NDArray[np.int64]) -> list[NDArray[np.int64]]:
        """Every rank's table [n, c] int64, by rank; n may differ, c not."""
        if self.size == 1:
            return [table]
        rows = _HEAD // table.shape[1]
        heads = self._gather(_padded(table, rows, first=len(table)))
        counts = [int(head[0, 0]) for head in heads]
        longest = max(counts)
        rests = self._gather(_padded(table[rows:], longest - rows)) if longest > rows else [table[:0]] * len(heads)
        return [
            np.concatenate((head[1:], rest))[:count] for head, rest, count in zip(heads, rests, counts, strict=True)
        ]

    def documents(self, document: Any) -> list[Any]:
        """Every rank's document, by rank: anything that JSON can hold."""
        text = json.dumps(document).encode()
        words = np.frombuffer(text.ljust(-(-len(text) // 8) * 8), dtype=np.int64).reshape(-1, 1)
        return [json.loads(table.tobytes()) for table in self.tables(words)]

    def add(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """The element-wise sum over ranks, on every rank."""
        if self.size == 1:
            return values
        summed = torch.from_numpy(values).to(self.device)
        dist.all_reduce(summed, group=self.group)
        total: NDArray[np.float64] = summed.cpu().numpy()
        return total

    def add_at_root(self, values: NDArray[np.float32]) -> NDArray[np.float32]:
        """The element-wise sum over ranks on rank 0; elsewhere of no meaning."""
        if self.size == 1:
            return values
        summed = torch.from_numpy(values).to(self.device)
        dist.reduce(summed, group_dst=0, group=self.group)
        total: NDArray[np.float32] = summed.cpu().numpy()
        return total

    def _gather(self, values: NDArray[np.int64]) -> list[NDArray[np.int64]]:
        own = torch.from_numpy(values).to(self.device)
        gathered = [torch.empty_like(own) for _ in range(self.size)]
        dist.all_gather(gathered, own, group=self.group)
        return [one.cpu().numpy() for one in gathered]


def _padded(table: NDArray[np.int64], rows: int, *, first: int | None = None) -> NDArray[np.int64]:
    """The table's rows up to `rows`, zeros after them, and before them a row that begins with `first`, if given."""
    lead = first is not None
    padded = np.zeros((lead + rows, table.shape[1]), dtype=np.int64)
    padded[lead : lead + min(len(table), rows)] = table[:rows]
    if first is not None:
        padded[0, 0] = first
    return padded
