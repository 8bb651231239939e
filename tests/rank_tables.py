"""Tables that ranks tell each other, for tests of their exchange."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
import torch.distributed as dist

from gradassay.harness.capture.exchange import Exchange
from rank_training import ranks


def numbered_table(length: int, rank: int) -> np.ndarray:
    """[length, 2] int64 that tells ranks and rows apart."""
    return np.arange(length * 2).reshape(-1, 2) + 1000 * rank + 1


def tables_and_document(lengths: list[tuple[int, ...]]) -> list[Any]:
    """What a rank is told of all ranks' tables, of `lengths` [exchange][rank] rows, and of their documents."""
    with ranks() as rank:
        exchange = Exchange(group=dist.group.WORLD, device=torch.device("cpu"))
        tables = [exchange.tables(numbered_table(by_rank[rank], rank)) for by_rank in lengths]
        return [*tables, exchange.documents({"rank": rank, "text": "x" * 10_000 * rank})]
