"""Rows of 64 elements added up by vectors: every element is loaded once, for its sum, its magnitude and its square.

Written in LLVM's own words, as compilers do not find this in a loop over elements: they load each of them three times, or
keep them where registers run out.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import cycle
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.errors import TypingError
from numba.extending import intrinsic

from gradassay.goldens.kernel.lanes import ROW, Bfloat16Lanes, Lanes
from gradassay.goldens.kernel.prefetch import LINE, ask

_COUNT = ir.IntType(64)
_DOUBLE = 8
# Sums of squares side by side, so that none waits for the one before it.
_SQUARES = 2
# Bytes between what is read and what is asked of memory meanwhile, a row at a time: many requests at once wait for each other.
_AHEAD = 64 * LINE


@intrinsic
def add_up(_context, values, first, signs, rows, limit, buckets):  # noqa: ARG001
    """Adds values[first : first + 64 * rows] to buckets [64] float64, element by element from the first bucket on and again,
    negated where their bit of signs [rows] uint64 is 1; but only where the largest magnitude is below `limit`.

    Returns the largest magnitude, not finite where one is not, and the sum of squares. values: float64, float32 or bfloat16
    bits; all is added up in float64 of float64, else in float32.
    """
    if values.layout != "C":
        raise TypingError("vectors are loaded from contiguous arrays only")
    kind = types.float64 if values.dtype == types.float64 else types.float32
    lanes = Bfloat16Lanes() if values.dtype == types.uint16 else Lanes(kind.bitwidth)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        def data(number: int) -> Any:
            return context.make_array(signature.args[number])(context, builder, arguments[number]).data

        start = builder.gep(data(0), [arguments[1]])
        block = _Block(builder, lanes)
        with cgutils.for_range(builder, arguments[3]) as row:
            word = builder.load(builder.gep(data(2), [row.index]))
            block.add_row(builder.gep(start, [builder.mul(row.index, _COUNT(ROW))]), word)
        largest = block.largest()
        bound = context.cast(builder, arguments[4], types.float64, kind)
        with builder.if_then(builder.fcmp_ordered("<", largest, bound), likely=True):
            block.add_to(data(5))
        return context.make_tuple(builder, signature.return_type, [largest, block.squares()])

    return types.UniTuple(kind, 2)(values, first, signs, rows, types.float64, buckets), generate


class _Block:
    """Several rows, what is known of them so far in variables that LLVM turns into registers."""

    def __init__(self, builder: Any, lanes: Lanes) -> None:
        self._builder, self._lanes = builder, lanes
        self._sums = [[self._variable(lanes.floats) for _ in group] for group in lanes.groups]
        self._squares = [self._variable(lanes.floats) for _ in range(_SQUARES)]
        self._largest = self._variable(lanes.loaded)

    def add_row(self, row: Any, word: Any) -> None:
        """Of the elements from the pointer `row` on, with one sign a bit of `word`."""
        build, lanes = self._builder, self._lanes
        ahead = build.bitcast(row, ir.IntType(8).as_pointer())
        for line in range(0, ROW * lanes.bytes, LINE):
            ask(build, build.gep(ahead, [_COUNT(_AHEAD + line)]))
        words = [
            _splat(build, build.trunc(build.lshr(word, _COUNT(low)), lanes.integer), lanes.integers)
            for low in range(0, ROW, lanes.bits)
        ]
        squares = cycle(self._squares)
        for group, sums in zip(lanes.groups, self._sums, strict=True):
            loaded = build.load(build.bitcast(build.gep(row, [_COUNT(group[0][0])]), lanes.loaded.as_pointer()))
            loaded.align = lanes.bytes
            for number, bits in enumerate(lanes.widened(build, loaded)):
                self._add_columns(sums[number], group[number], bits, words[group[number][0] // lanes.bits])
                value = build.bitcast(bits, lanes.floats)
                self._add(next(squares), build.fmul(value, value, flags=("contract",)))
            self._note(loaded)

    def add_to(self, buckets: Any) -> None:
        """Adds the sum of every column to its bucket, a pointer to float64 of which there are 64."""
        build, lanes = self._builder, self._lanes
        wide = ir.VectorType(ir.DoubleType(), lanes.count)
        sums = [one for group in self._sums for one in lanes.ordered(build, [build.load(place) for place in group])]
        for number, found in enumerate(sums):
            place = build.bitcast(build.gep(buckets, [_COUNT(number * lanes.count)]), wide.as_pointer())
            before = build.load(place)
            before.align = _DOUBLE
            after = build.fadd(before, found if wide == lanes.floats else build.fpext(found, wide))
            build.store(after, place).align = _DOUBLE

    def largest(self) -> Any:
        """The largest magnitude as a floating-point number."""
        found = _reduced(self._builder, "umax", self._builder.load(self._largest))
        return self._lanes.float_of(self._builder, found)

    def squares(self) -> Any:
        """The sum of all squares."""
        first, *others = (self._builder.load(total) for total in self._squares)
        for other in others:
            first = self._builder.fadd(first, other)
        return _reduced(self._builder, "fadd", first, self._lanes.float(0.0), fastmath=("reassoc",))

    def _note(self, loaded: Any) -> None:
        """Magnitudes are ordered as their bits are, with infinity and then NaN at the end."""
        build, element = self._builder, 8 * self._lanes.bytes
        below_sign = self._lanes.loaded([(1 << (element - 1)) - 1] * self._lanes.loaded.count)
        magnitude, largest = build.and_(loaded, below_sign), build.load(self._largest)
        build.store(build.select(build.icmp_unsigned(">", magnitude, largest), magnitude, largest), self._largest)

    def _add_columns(self, total: Any, columns: Sequence[int], bits: Any, word: Any) -> None:
        build, lanes = self._builder, self._lanes
        up = lanes.integers([lanes.bits - 1 - column % lanes.bits for column in columns])
        sign = lanes.integers([1 << (lanes.bits - 1)] * lanes.count)
        flip = build.and_(build.shl(word, up), sign)
        self._add(total, build.bitcast(build.xor(bits, flip), lanes.floats))

    def _add(self, variable: Any, value: Any) -> None:
        self._builder.store(self._builder.fadd(self._builder.load(variable), value, flags=("contract",)), variable)

    def _variable(self, kind: Any) -> Any:
        place = cgutils.alloca_once(self._builder, kind)
        self._builder.store(kind(None), place)
        return place


def _splat(builder: Any, number: Any, kind: Any) -> Any:
    """A vector of one number."""
    nothing = kind(ir.Undefined)
    one = builder.insert_element(nothing, number, _COUNT(0))
    return builder.shuffle_vector(one, nothing, ir.VectorType(ir.IntType(32), kind.count)(None))


def _reduced(builder: Any, operation: str, vector: Any, *start: Any, **options: Any) -> Any:
    """One number out of a vector's; see llvm.vector.reduce in LLVM's reference."""
    element = vector.type.element
    arguments = [*start, vector]
    name = f"llvm.vector.reduce.{operation}.v{vector.type.count}{element.intrinsic_name}"
    kind = ir.FunctionType(element, [argument.type for argument in arguments])
    return builder.call(cgutils.get_or_insert_function(builder.module, kind, name), arguments, **options)
