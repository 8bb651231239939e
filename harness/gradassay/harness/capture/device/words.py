"""The Triton kernel of a checksum: words mixed with their places, and added."""

from __future__ import annotations

import triton
import triton.language as tl

from gradassay.harness.capture.device.signs import mix

STEP = tl.constexpr(0x9E3779B97F4A7C15)


@triton.jit(do_not_specialize=["count"])
def add_words(values, sums, count, per_word: tl.constexpr, bits: tl.constexpr, block: tl.constexpr):
    """Leaves in sums [programs] int64 what the 64-bit words of its blocks mix to, each with its place, added modulo 2^64.

    values: [count] integers of `bits` bits, `per_word` to a word, the last of which is filled up with zeros.
    """
    lane = tl.arange(0, per_word)
    found = tl.zeros([block], tl.uint64)
    words = (count.to(tl.int64) + per_word - 1) // per_word
    for start in range(tl.program_id(0).to(tl.int64) * block, words, tl.num_programs(0) * block):
        word = start + tl.arange(0, block)
        place = word[:, None] * per_word + lane[None, :]
        parts = tl.load(values + place, mask=place < count, other=0).to(tl.uint64)
        if bits < 64:
            # Signs were extended.
            parts = (parts & ((1 << bits) - 1)) << (bits * lane[None, :]).to(tl.uint64)
        mixed = mix(tl.sum(parts, axis=1) + (word.to(tl.uint64) + 1) * STEP)
        found += tl.where(word < words, mixed, 0)
    tl.store(sums + tl.program_id(0), tl.sum(found, axis=0).to(tl.int64, bitcast=True))
