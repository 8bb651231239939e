"""Single elements of float32, float64 or bfloat16 (as uint16 bits): their signs in a sketch, their values, their magnitudes.

All of it is written so that compilers make vectors of it: signs and magnitudes are bits.
"""

from __future__ import annotations

import numba
import numpy as np
from numba import types
from numba.extending import overload

SEED = 0x601DA55A

_SIGN_BIT_32, _SIGN_BIT = np.uint32(1 << 31), np.uint64(1 << 63)
_BELOW_SIGN_32, _BELOW_SIGN = np.uint32((1 << 31) - 1), np.uint64((1 << 63) - 1)
# By how much a lane's sign is shifted up to the sign bit; read rather than computed, as lanes are counted in 64 bits.
_UP_32 = np.arange(31, -1, -1, dtype=np.uint32)
_UP = np.arange(63, 31, -1, dtype=np.uint64)


@numba.njit(inline="always")
def mix(z):
    """splitmix64 of a uint64 (Steele, Lea and Flood, 2014)."""
    z = z + np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


def narrow(values, position):
    """An element as float32, or as float64 of float64; compiled by the overload below."""


@overload(narrow, inline="always")
def _compile_narrow(values, position):  # noqa: ARG001
    if values.dtype == types.uint16:
        return lambda values, position: np.uint32(np.uint32(values[position]) << np.uint32(16)).view(np.float32)
    return lambda values, position: values[position]


def signed(values, position, signs, lane):
    """An element as `narrow` gives it, negated where bit `lane` < 32 of the uint64 `signs` is 1; compiled below."""


@overload(signed, inline="always")
def _compile_signed(values, position, signs, lane):  # noqa: ARG001
    def signed_64(values, position, signs, lane):
        flip = (signs << _UP[lane]) & _SIGN_BIT
        return np.uint64(np.float64(values[position]).view(np.uint64) ^ flip).view(np.float64)

    def signed_32(values, position, signs, lane):
        flip = np.uint32((np.uint32(signs) << (_UP_32[lane] & np.uint32(31))) & _SIGN_BIT_32)
        return np.uint32(np.float32(narrow(values, position)).view(np.uint32) ^ flip).view(np.float32)

    return signed_64 if values.dtype == types.float64 else signed_32


def largest(values, first, elements):
    """The largest magnitude of values[first : first + elements] as float64, not finite where one is not; compiled below."""


@overload(largest)
def _compile_largest(values, first, elements):  # noqa: ARG001
    # Magnitudes are ordered as their bits are, with infinity and then NaN at the end.
    def largest_64(values, first, elements):
        found = np.uint64(0)
        for element in range(elements):
            found = max(found, np.uint64(np.float64(values[first + np.uint64(element)]).view(np.uint64) & _BELOW_SIGN))
        return np.uint64(found).view(np.float64)

    def largest_32(values, first, elements):
        found = np.uint32(0)
        for element in range(elements):
            bits = np.float32(narrow(values, first + np.uint64(element))).view(np.uint32)
            found = max(found, np.uint32(bits & _BELOW_SIGN_32))
        return np.float64(np.uint32(found).view(np.float32))

    return largest_64 if values.dtype == types.float64 else largest_32
