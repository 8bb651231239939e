"""Signs of spec v1 in Triton: bits of splitmix64 of a row's number."""

from __future__ import annotations

import triton
import triton.language as tl

SEED = tl.constexpr(0x601DA55A)


@triton.jit
def mix(z):
    """splitmix64 of uint64 (Steele, Lea and Flood, 2014)."""
    z = z + 0x9E3779B97F4A7C15
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB
    return z ^ (z >> 31)


@triton.jit
def signs_of(row, rows: tl.constexpr):
    """[rows] uint64: the signs of rows from the int64 `row` on."""
    return mix((row + tl.arange(0, rows)).to(tl.uint64) + SEED)


@triton.jit
def flips(signs, vector: tl.constexpr):
    """[rows, 64 // vector, vector] uint32, of which bit 31 is set where an element is to be negated; signs: of `signs_of`."""
    columns = tl.arange(0, 64 // vector) * vector
    lanes = columns[None, :, None] + tl.arange(0, vector)[None, None, :]
    # 32 bits of a vector's half first: shifts of 64 bits cost several instructions an element.
    half = tl.where(columns[None, :] < 32, signs[:, None], signs[:, None] >> 32).to(tl.uint32)
    return (half[:, :, None] << (31 - (lanes & 31)).to(tl.uint32)) & 0x80000000


@triton.jit
def negated(values, flip):
    """float32 values with other signs where bit 31 of `flip` is set."""
    return (values.to(tl.uint32, bitcast=True) ^ flip).to(tl.float32, bitcast=True)
