"""The routed part of a layer: router, experts of this rank, and the way between them."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from gradassay.harness.parallel import ExpertParallel, dispatch
from gradassay.harness.problems.model import wide
from gradassay.harness.problems.protocol import Routed


class Experts(nn.ModuleDict):
    """The experts of this rank, by their global numbers."""

    def forward(self, rows: Tensor, counts: list[list[int]]) -> Tensor:
        """[n, hidden] for rows ordered by source rank, then expert; counts: [source rank][local expert].

        An expert without rows runs on none, so that its gradient is zero and not missing.
        """
        sizes = [size for source in counts for size in source]
        parts = rows.split(sizes)
        local = len(self)
        outputs: list[Tensor] = [rows] * len(parts)
        for number, expert in enumerate(self.values()):
            own = range(number, len(parts), local)
            computed = expert(torch.cat([parts[place] for place in own]))
            for place, output in zip(own, computed.split([sizes[place] for place in own]), strict=True):
                outputs[place] = output
        return torch.cat(outputs)


class RoutedExperts(nn.Module):
    """Softmax router in float32, `top_k` experts a token, all-to-all where experts are spread over ranks."""

    def __init__(self, routed: Routed, parallel: ExpertParallel) -> None:
        super().__init__()
        self.routed, self.parallel = routed, parallel
        self.router = nn.Linear(routed.hidden, routed.experts, bias=False)
        self.experts = Experts({str(number): routed.expert() for number in parallel.local(routed.experts)})

    def forward(self, hidden: Tensor) -> tuple[Tensor, Tensor]:
        """[..., hidden] and the unscaled auxiliary loss (Switch Transformer, arXiv 2101.03961, eq. 4)."""
        rows = hidden.reshape(-1, hidden.shape[-1])
        logits = functional.linear(wide(rows), wide(self.router.weight))
        chosen, choices = logits.topk(self.routed.top_k, dim=-1)
        first = functional.one_hot(choices[:, 0], self.routed.experts).to(logits.dtype)
        auxiliary = self.routed.experts * (logits.softmax(-1).mean(0) * first.mean(0)).sum()
        output = dispatch(
            rows,
            choices,
            chosen.softmax(-1),
            experts=self.routed.experts,
            parallel=self.parallel,
            run=self.experts,
        )
        return output.reshape(hidden.shape), auxiliary
