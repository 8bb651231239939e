"""Expert parallelism: tokens travel to the ranks that hold their experts, by all-to-all, and back."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from gradassay.harness.mesh import Ranks


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpertParallel:
    """A rank's place in its ep group: expert e of E lives on ep rank e // (E / size)."""

    size: int = 1
    rank: int = 0
    group: dist.ProcessGroup | None = None

    @classmethod
    def of(cls, ranks: Ranks) -> ExpertParallel:
        """The place that a layout gives this rank."""
        return cls(size=ranks.layout.ep, rank=ranks.ep_rank, group=ranks.ep)

    def local(self, experts: int) -> range:
        """Global numbers of the experts of this rank, of `experts` in all."""
        each = experts // self.size
        return range(self.rank * each, (self.rank + 1) * each)


class _AllToAll(torch.autograd.Function):
    """Rows to the ranks of a group by uneven splits; the gradient takes the way back."""

    @staticmethod
    def forward(ctx: Any, rows: Tensor, sent: list[int], received: list[int], group: dist.ProcessGroup) -> Tensor:
        ctx.sent, ctx.received, ctx.group = sent, received, group
        return _exchange(rows, sent, received, group)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None, None]:
        return _exchange(gradients[0], ctx.received, ctx.sent, ctx.group), None, None, None


def _exchange(rows: Tensor, sent: list[int], received: list[int], group: dist.ProcessGroup) -> Tensor:
    arrived = rows.new_empty((sum(received), *rows.shape[1:]))
    dist.all_to_all_single(arrived, rows.contiguous(), received, sent, group=group)
    return arrived


def dispatch(
    rows: Tensor,
    choices: Tensor,
    gates: Tensor,
    *,
    experts: int,
    parallel: ExpertParallel,
    run: Callable[[Tensor, list[list[int]]], Tensor],
) -> Tensor:
    """[T, H]: for every row the sum of its experts' outputs, weighted by their gates; no row is dropped.

    rows: [T, H]. choices: [T, k] int64 expert numbers. gates: [T, k]. run: (rows ordered by source rank, then expert;
    how many of them [source rank][local expert]) -> as many rows, on the rank that holds the experts.
    """
    top_k = choices.shape[1]
    order = torch.argsort(choices.reshape(-1), stable=True)
    counts = torch.bincount(choices.reshape(-1), minlength=experts).reshape(parallel.size, -1)
    outgoing = rows[order // top_k]
    if parallel.group is None:
        outputs = run(outgoing, counts.tolist())
    else:
        arriving = torch.empty_like(counts)
        dist.all_to_all_single(arriving, counts, group=parallel.group)
        sent, received = counts.sum(1).tolist(), arriving.sum(1).tolist()
        exchange: Callable[..., Tensor] = _AllToAll.apply
        there = exchange(outgoing, sent, received, parallel.group)
        outputs = exchange(run(there, arriving.tolist()), received, sent, parallel.group)
    back = torch.empty_like(order).scatter_(0, order, torch.arange(len(order), device=order.device))
    weighted = outputs[back].reshape(*choices.shape, -1).to(gates.dtype) * gates.unsqueeze(-1)
    return weighted.sum(1).to(rows.dtype)
