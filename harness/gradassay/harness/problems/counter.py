"""Numbers from a counter: a function of seed, name and element index, the same bytes everywhere.

Integer arithmetic and correctly rounded IEEE operations only; no library random generator, no transcendental function.
"""

from __future__ import annotations

import hashlib
from math import sqrt

import numpy as np
from numpy.typing import NDArray

_GAMMA = np.uint64(0x9E3779B97F4A7C15)
_FIRST = np.uint64(0xBF58476D1CE4E5B9)
_SECOND = np.uint64(0x94D049BB133111EB)
_PAIRS = np.uint64(0x0000FFFF0000FFFF)
_CHUNK = 1 << 15
_UNIFORMS = 4
_CENTRE = _UNIFORMS * (2**16 - 1) // 2

DEVIATION = sqrt(_UNIFORMS * (2**32 - 1) / 12)
"""Standard deviation of `bells`."""


def words(seed: int, name: str, count: int, start: int = 0) -> NDArray[np.uint64]:
    """[count] uint64: splitmix64 of (seed, name) at positions start, start + 1, ..."""
    key = int.from_bytes(hashlib.sha256(f"{seed}:{name}".encode()).digest()[:8], "little")
    state = np.arange(start + 1, start + count + 1, dtype=np.uint64)
    state *= _GAMMA
    state += np.uint64(key)
    state ^= state >> np.uint64(30)
    state *= _FIRST
    state ^= state >> np.uint64(27)
    state *= _SECOND
    state ^= state >> np.uint64(31)
    return state


def bells(seed: int, name: str, count: int) -> NDArray[np.int64]:
    """[count] int64: centred, bell-shaped (sum of four uniform 16-bit numbers), of standard deviation `DEVIATION`."""
    total = np.empty(count, dtype=np.int64)
    for start in range(0, count, _CHUNK):
        part = total[start : start + _CHUNK]
        drawn = words(seed, name, len(part), start)
        pairs = (drawn & _PAIRS) + ((drawn >> np.uint64(16)) & _PAIRS)
        part[:] = (pairs >> np.uint64(32)) + (pairs & np.uint64(0xFFFFFFFF))
    total -= _CENTRE
    return total


def below(seed: int, name: str, bound: int, count: int) -> NDArray[np.int64]:
    """[count] int64 in [0, bound), by multiply-shift on 32 bits."""
    high = words(seed, name, count) >> np.uint64(32)
    return ((high * np.uint64(bound)) >> np.uint64(32)).astype(np.int64)


def shuffled(seed: int, name: str, count: int) -> NDArray[np.int64]:
    """[count] int64: a permutation of 0 .. count - 1."""
    return np.argsort(words(seed, name, count), kind="stable").astype(np.int64)


def to_bfloat16(values: NDArray[np.float64]) -> NDArray[np.float32]:
    """The nearest bfloat16 of each value (ties to even), as float32."""
    bits = values.astype(np.float32).view(np.uint32)
    bits = bits + np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))
    rounded: NDArray[np.float32] = (bits & np.uint32(0xFFFF0000)).view(np.float32)
    return rounded


def hadamard(values: NDArray[np.int64]) -> NDArray[np.int64]:
    """[n, width]: the Walsh-Hadamard transform of every row; width is a power of two. Exact, not normalised."""
    width = values.shape[1]
    assert width & (width - 1) == 0, "a Hadamard transform needs a power of two"
    transformed = values.copy()
    rows = max(_CHUNK // width, 1)
    for first in range(0, len(values), rows):
        part = transformed[first : first + rows]
        for level in range(width.bit_length() - 1):
            pairs = part.reshape(len(part), -1, 2, 1 << level)
            upper, lower = pairs[:, :, 0], pairs[:, :, 1]
            upper += lower
            lower *= -2
            lower += upper
    return transformed
