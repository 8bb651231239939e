"""Single elements of float32, float64 or bfloat16 (as uint16 bits): their values, and their rows' signs in a sketch."""

from __future__ import annotations

import numba
import numpy as np
from numba import types
from numba.extending import overload

SEED = 0x601DA55A


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
