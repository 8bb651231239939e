"""Which experts serve which token: decided by the vocabulary, not by chance."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from gradassay.harness.problems.counter import shuffled


@dataclass(frozen=True, slots=True, kw_only=True)
class Routes:
    """first, second: [V] int64, the expert of first and of second choice of every token.

    Tokens 2p and 2p + 1 share a pair of experts in opposite order. A unit that holds both equally often has as many
    first choices as second choices on every expert.
    """

    first: NDArray[np.int64]
    second: NDArray[np.int64]


def routes(seed: int, vocabulary: int, experts: int) -> Routes:
    """The vocabulary's routes; every expert is in about as many pairs."""
    all_pairs = np.array(list(combinations(range(experts), 2)), dtype=np.int64)
    order = shuffled(seed, "routes", len(all_pairs))
    pairs = all_pairs[order][np.arange(vocabulary // 2) % len(all_pairs)]
    first = np.stack((pairs[:, 0], pairs[:, 1]), axis=1).reshape(-1)
    second = np.stack((pairs[:, 1], pairs[:, 0]), axis=1).reshape(-1)
    return Routes(first=first, second=second)
