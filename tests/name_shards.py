"""Tensors cut into pieces over ranks in every way, and put together again."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise, product
from typing import Any

import numpy as np
import torch
from hypothesis import strategies as st

from gradassay.goldens.header import Parameter
from gradassay.harness.capture.local import block_runs
from gradassay.harness.capture.piece import Piece

Shape = tuple[int, ...]


def piece_of(name: str, values: torch.Tensor, runs: Any) -> Piece:
    """The piece of a whole tensor that these runs are."""
    table = np.array(runs, dtype=np.int64).reshape(-1, 2)
    flat = values.reshape(-1)
    parts = [flat[first : first + length] for first, length in table.tolist()]
    return Piece(name=name, values=torch.cat(parts) if parts else flat[:0], runs=table)


@st.composite
def shards(draw: st.DrawFn, shape: Shape, ranks: int) -> list[list[list[int]]]:
    """For each rank runs of a tensor of this shape, every element on one rank: stretches, blocks or any runs at all."""
    total = int(np.prod(shape))
    kind = draw(st.sampled_from(["stretches", "blocks", "anything"]))
    if kind == "blocks":
        edges = [sorted({0, size, *draw(st.lists(st.integers(0, size), max_size=2))}) for size in shape]
        parts = [
            block_runs(shape, tuple(low for low, _ in sides), tuple(high - low for low, high in sides)).tolist()
            for sides in product(*(list(pairwise(edge)) for edge in edges))
        ]
    else:
        edges_flat = sorted(
            {0, total, *draw(st.lists(st.integers(0, total), max_size=ranks if kind == "stretches" else 12))}
        )
        parts = [[[low, high - low]] for low, high in pairwise(edges_flat)]
    if kind == "anything":
        parts = draw(st.permutations(parts))
    owners = draw(st.lists(st.integers(0, ranks - 1), min_size=len(parts), max_size=len(parts)))
    return [
        [run for part, owner in zip(parts, owners, strict=True) if owner == rank for run in part]
        for rank in range(ranks)
    ]


def assembled(pieces: Iterable[Piece], parameters: Iterable[Parameter]) -> dict[str, torch.Tensor]:
    """Canonical tensors from all ranks' pieces; fails where an element is missing or comes twice."""
    pieces = list(pieces)
    found = {}
    for parameter in parameters:
        own = [piece for piece in pieces if piece.name == parameter.name]
        dtype = next((piece.values.dtype for piece in own if piece.values is not None), torch.float32)
        whole, times = torch.zeros(parameter.numel, dtype=dtype), np.zeros(parameter.numel, dtype=np.int64)
        for piece in own:
            assert piece.values is not None
            assert piece.values.dtype == dtype
            before = 0
            for first, length in piece.runs.tolist():
                assert length > 0, "a run of nothing"
                whole[first : first + length] = piece.values[before : before + length]
                times[first : first + length] += 1
                before += length
            assert before == piece.values.numel()
        assert (times == 1).all(), (
            f"{parameter.name}: elements {np.flatnonzero(times != 1)[:8]} not once but {times.max()}"
        )
        found[parameter.name] = whole.reshape(parameter.shape)
    return found
