"""A checksum of arrays at the speed of memory, to tell copies apart."""

from __future__ import annotations

import zlib

import numba
import numpy as np
from numpy.typing import NDArray

from gradassay.goldens.kernel.prefetch import prefetch

_LANES = 8
# Cache lines between what is read and what is asked of memory meanwhile.
_AHEAD = 32
_PRIME = 0x100000001B3
_TURN = 29


def fingerprint(values: NDArray[np.generic]) -> int:
    """63 bits of the bytes of a 1-D array: other ones for arrays that differ, but by chance."""
    raw = np.ascontiguousarray(values).view(np.uint8)
    whole = len(raw) // (8 * _LANES) * 8 * _LANES
    return int(mixed(raw[:whole].view(np.uint64))) >> 1 ^ zlib.crc32(raw[whole:].data)


@numba.njit(cache=True)
def mixed(words):  # type: ignore[no-untyped-def]
    """uint64 of the words [n]: every eighth of them, and then the eight that come of it, by FNV-1a on words instead of bytes.

    A product's high bits depend on all bits of a word, its low ones on the low ones only: so words are turned before.
    """
    lanes = np.zeros(_LANES, dtype=np.uint64)
    for row in range(len(words) // _LANES):
        prefetch(words, np.uint64((row + _AHEAD) * _LANES))  # type: ignore[call-arg]
        for lane in range(_LANES):
            lanes[lane] = _step(lanes[lane], words[np.uint64(row * _LANES + lane)])
    both = np.uint64(0)
    for lane in range(_LANES):
        both = _step(both, lanes[lane])
    return both ^ both >> np.uint64(32)


@numba.njit
def _step(state, word):  # type: ignore[no-untyped-def]
    state ^= word
    return (state << np.uint64(_TURN) | state >> np.uint64(64 - _TURN)) * np.uint64(_PRIME)
