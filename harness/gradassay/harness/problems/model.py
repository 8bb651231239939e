"""A causal language model whose gradients are of healthy size everywhere: dense, or with routed experts.

Parameters and activations are in the model's element type; norms, attention scores, the router and the loss are
computed in float32 (float64 in a float64 model), as mixed-precision training does.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional

from gradassay.harness.problems.protocol import Routed
from gradassay.harness.problems.shape import Shape


def wide(values: Tensor) -> Tensor:
    """The values in float32, or as they are in float64."""
    return values if values.dtype == torch.float64 else values.float()


class Norm(nn.LayerNorm):
    """Layer norm computed in float32."""

    def forward(self, hidden: Tensor) -> Tensor:
        """[..., hidden] in the input's element type."""
        normed = functional.layer_norm(
            wide(hidden), self.normalized_shape, wide(self.weight), wide(self.bias), self.eps
        )
        return normed.to(hidden.dtype)


class Attention(nn.Module):
    """Causal attention. Query and key have no bias: a key's bias has no gradient by construction."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.heads = shape.heads
        self.query = nn.Linear(shape.hidden, shape.hidden, bias=False)
        self.key = nn.Linear(shape.hidden, shape.hidden, bias=False)
        self.value = nn.Linear(shape.hidden, shape.hidden)
        self.output = nn.Linear(shape.hidden, shape.hidden)

    def forward(self, hidden: Tensor) -> Tensor:
        """[S, L, hidden]."""
        query, key, value = (
            wide(part(hidden)).unflatten(-1, (self.heads, -1)).transpose(1, 2)
            for part in (self.query, self.key, self.value)
        )
        scores = query @ key.transpose(-1, -2) / query.shape[-1] ** 0.5
        length = hidden.shape[1]
        future = torch.ones(length, length, dtype=torch.bool, device=hidden.device).triu(1)
        shares = scores.masked_fill(future, float("-inf")).softmax(-1)
        mixed: Tensor = self.output((shares @ value).transpose(1, 2).flatten(-2).to(hidden.dtype))
        return mixed


class Mlp(nn.Module):
    """Up, SiLU, down: the dense part of a block, and one expert."""

    def __init__(self, hidden: int, inner: int, *, bias: bool) -> None:
        super().__init__()
        self.up = nn.Linear(hidden, inner, bias=bias)
        self.down = nn.Linear(inner, hidden, bias=bias)

    def forward(self, hidden: Tensor) -> Tensor:
        """[..., hidden]."""
        output: Tensor = self.down(functional.silu(self.up(hidden)))
        return output


class Block(nn.Module):
    """Attention, then an MLP, beside which experts may be routed (the MLP is then the shared expert)."""

    def __init__(self, shape: Shape, moe: nn.Module | None) -> None:
        super().__init__()
        self.attention_norm = Norm(shape.hidden)
        self.attention = Attention(shape)
        self.mlp_norm = Norm(shape.hidden)
        self.mlp = Mlp(shape.hidden, shape.shared or shape.inner, bias=True)
        self.moe = moe

    def forward(self, hidden: Tensor) -> tuple[Tensor, Tensor | None]:
        """[S, L, hidden] and the layer's unscaled auxiliary loss."""
        hidden = hidden + self.attention(self.attention_norm(hidden))
        normed = self.mlp_norm(hidden)
        output, auxiliary = self.mlp(normed), None
        if self.moe is not None:
            routed, auxiliary = self.moe(normed)
            output = output + routed
        return hidden + output, auxiliary


class LanguageModel(nn.Module):
    """Embedding, blocks, norm, head. `routed` makes the routed part of a layer."""

    def __init__(self, shape: Shape, routed: Callable[[Routed], nn.Module]) -> None:
        super().__init__()
        self.shape = shape
        self.embedding = nn.Embedding(shape.vocabulary, shape.hidden)
        self.position = nn.Embedding(shape.length, shape.hidden)
        self.layers = nn.ModuleList(
            Block(shape, routed(_routed(shape, layer)) if shape.experts else None) for layer in range(shape.layers)
        )
        self.norm = Norm(shape.hidden)
        self.head = None if shape.tied else nn.Linear(shape.hidden, shape.vocabulary, bias=False)

    def forward(self, inputs: Tensor) -> tuple[Tensor, Tensor | None]:
        """[S, L] token ids to float32 logits [S, L, V] and the sum of the layers' unscaled auxiliary losses."""
        hidden = self.embedding(inputs) + self.position(torch.arange(inputs.shape[1], device=inputs.device))
        losses: list[Tensor] = []
        for layer in self.layers:
            hidden, auxiliary = layer(hidden)
            if auxiliary is not None:
                losses.append(auxiliary)
        normed = self.norm(hidden)
        if self.head is None:
            logits = functional.linear(normed, self.embedding.weight) / self.shape.hidden**0.5
        else:
            logits = self.head(normed)
        return wide(logits), torch.stack(losses).sum() if losses else None


def _routed(shape: Shape, layer: int) -> Routed:
    return Routed(
        layer=layer,
        prefix=f"layers.{layer}.moe",
        experts=shape.experts,
        hidden=shape.hidden,
        inner=shape.inner,
        top_k=shape.top_k,
        expert=lambda: Mlp(shape.hidden, shape.inner, bias=False),
    )
