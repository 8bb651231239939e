"""One rank's part of one parameter's gradient."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """What this rank holds of one parameter's gradient.

    name: canonical. values: 1-D local values in the order of `runs`, None where the framework gave no gradient.
    runs: [n, 2] int64, first global element index and length of every stretch, in the flattened unsharded parameter.
    replica: number of the copy that this belongs to. All pieces of one parameter and replica, over all
    ranks, must cover every element exactly once; the lowest is what the record keeps, the others are compared with it.
    """

    name: str
    values: Tensor | None
    runs: NDArray[np.int64]
    replica: int = 0


def whole(name: str, gradient: Tensor | None, *, numel: int, replica: int = 0) -> Piece:
    """The piece of a rank that holds the whole parameter: copy number `replica`."""
    values = None if gradient is None else gradient.detach().reshape(-1)
    return Piece(name=name, values=values, runs=_whole_runs(numel), replica=replica)


def stretch(name: str, values: Tensor | None, *, start: int, length: int, replica: int = 0) -> Piece:
    """The piece of a rank that holds elements [start, start + length); length 0 for a rank that holds none."""
    runs = np.array([[start, length]] if length else np.empty((0, 2)), dtype=np.int64).reshape(-1, 2)
    return Piece(name=name, values=values, runs=runs, replica=replica)


@lru_cache(maxsize=1024)
def _whole_runs(numel: int) -> NDArray[np.int64]:
    """The same array every time, so that those who know it need not look at it again."""
    return np.array([[0, numel]], dtype=np.int64)
