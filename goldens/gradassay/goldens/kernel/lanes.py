"""How the elements of a row lie in vectors, by their type."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from llvmlite import ir

ROW = 64
# Bits of a vector; LLVM takes several registers, or a part of one, where a processor's are of another size.
_WIDTH = 256


class Lanes:
    """Of float32 or float64, which are added up in their own type: a vector is of neighbouring columns."""

    bits: int
    """Of the type in which is added up."""
    bytes: int
    """Of an element in memory."""
    loaded: Any
    """Vectors as they are loaded, of integers."""
    groups: Sequence[Sequence[Sequence[int]]]
    """Of every vector that is loaded those that are added up, of these the columns."""

    def __init__(self, bits: int) -> None:
        self.bits, self.bytes, self.count = bits, bits // 8, _WIDTH // bits
        self.integer, self.float = ir.IntType(bits), ir.DoubleType() if bits == 64 else ir.FloatType()
        self.integers, self.floats = (ir.VectorType(kind, self.count) for kind in (self.integer, self.float))
        self.loaded = self.integers
        self.groups = [[range(first, first + self.count)] for first in range(0, ROW, self.count)]

    def widened(self, _builder: Any, loaded: Any) -> list[Any]:
        """The vectors of a group as bits of the type in which is added up."""
        return [loaded]

    def ordered(self, _builder: Any, group: Sequence[Any]) -> list[Any]:
        """A group's vectors by neighbouring columns."""
        return list(group)

    def float_of(self, builder: Any, bits: Any) -> Any:
        """The number that one loaded element is."""
        return builder.bitcast(bits, self.float)


class Bfloat16Lanes(Lanes):
    """Of bfloat16, the upper halves of float32: a vector is of every second column, as that takes one instruction."""

    def __init__(self) -> None:
        super().__init__(32)
        self.bytes = 2
        self.loaded = ir.VectorType(ir.IntType(16), 2 * self.count)
        self.groups = [
            [range(first + odd, first + 2 * self.count, 2) for odd in range(2)]
            for first in range(0, ROW, 2 * self.count)
        ]

    def widened(self, builder: Any, loaded: Any) -> list[Any]:
        """Both vectors of a group as float32 bits."""
        pairs = builder.bitcast(loaded, self.integers)
        upper, shift = (self.integers([number] * self.count) for number in (0xFFFF0000, 16))
        return [builder.shl(pairs, shift), builder.and_(pairs, upper)]

    def ordered(self, builder: Any, group: Sequence[Any]) -> list[Any]:
        """Both vectors by neighbouring columns."""
        half, kind = self.count // 2, ir.VectorType(ir.IntType(32), self.count)
        return [
            builder.shuffle_vector(*group, kind([lane + self.count * odd for lane in lanes for odd in range(2)]))
            for lanes in (range(half), range(half, self.count))
        ]

    def float_of(self, builder: Any, bits: Any) -> Any:
        """The number that one loaded element is."""
        return super().float_of(builder, builder.shl(builder.zext(bits, self.integer), self.integer(16)))
