"""Asks a CPU to bring memory closer before it is read: for kernels that compute about as long as they wait."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

LINE = 64
"""Bytes that a CPU brings at once, on most of them."""
_READ, _ALL_CACHES, _DATA = 0, 3, 1


@intrinsic
def prefetch(_context, values, index):
    """Of the cache line of values[index], which may lie outside the array."""

    def generate(context, builder, signature, arguments):
        array = context.make_array(signature.args[0])(context, builder, arguments[0])
        ask(builder, builder.gep(array.data, [arguments[1]]))
        return context.get_dummy_value()

    return types.void(values, index), generate


def ask(builder: Any, place: Any) -> None:
    """Builds the request for the cache line that a pointer is in; see llvm.prefetch in LLVM's reference."""
    byte, flag = ir.IntType(8).as_pointer(), ir.IntType(32)
    kind = ir.FunctionType(ir.VoidType(), [byte, flag, flag, flag])
    function = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0i8")
    builder.call(function, [builder.bitcast(place, byte), flag(_READ), flag(_ALL_CACHES), flag(_DATA)])
