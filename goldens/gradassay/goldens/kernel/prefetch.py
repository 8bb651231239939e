"""Asks a CPU to bring memory closer before it is read: for kernels that compute about as long as they wait."""

from __future__ import annotations

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

_READ, _ALL_CACHES, _DATA = 0, 3, 1


@intrinsic
def prefetch(_context, values, index):
    """Of the cache line of values[index], which may lie outside the array; see llvm.prefetch in LLVM's reference."""

    def generate(context, builder, signature, arguments):
        array = context.make_array(signature.args[0])(context, builder, arguments[0])
        byte, flag = ir.IntType(8).as_pointer(), ir.IntType(32)
        function = cgutils.get_or_insert_function(
            builder.module, ir.FunctionType(ir.VoidType(), [byte, flag, flag, flag]), "llvm.prefetch.p0i8"
        )
        place = builder.bitcast(builder.gep(array.data, [arguments[1]]), byte)
        builder.call(function, [place, flag(_READ), flag(_ALL_CACHES), flag(_DATA)])
        return context.get_dummy_value()

    return types.void(values, index), generate
