"""Compiles the kernels for a GPU that need not be there: prints JSON of each one's 128-bit loads and bytes of binary.

python compile_kernels.py TARGET KIND...     as in sm_90 or gfx942; fp32, bf16, fp16, fp64
"""

from __future__ import annotations

import json
import sys
from typing import Any

import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from gradassay.harness.capture.device.kernels import add_elements, add_rows, add_up
from gradassay.harness.capture.device.places import TILE, TOGETHER
from gradassay.harness.capture.device.words import add_words

KINDS = {"fp32": 4, "bf16": 8, "fp16": 8, "fp64": 2}
"""Elements of 16 bytes."""


def compiled(target: GPUTarget, kernel: Any, types: dict[str, str], **constants: Any) -> Any:
    """The kernel for pointers to memory at multiples of 16 bytes."""
    places = {name: (kernel.arg_names.index(name),) for name in (*types, *constants)}
    source = ASTSource(
        fn=kernel,
        signature={**types, **dict.fromkeys(constants, "constexpr")},
        constexprs={places[name]: value for name, value in constants.items()},
        attrs={places[name]: [["tt.divisibility", 16]] for name, kind in types.items() if kind.startswith("*")},
    )
    return triton.compile(source, target=target)


def all_kernels(target: GPUTarget, kinds: list[str]) -> dict[str, Any]:
    """Every kernel for values of these kinds as it is started, by a name of its variant."""
    found = {}
    numbers = dict.fromkeys(("first", "end"), "i64")
    for kind in kinds:
        vector = KINDS[kind]
        rows = {"values": f"*{kind}", "pieces": "*i64", "ends": "*i64", "partial": "*fp64", **numbers, "rows": "i32"}
        rows |= {"segment": "i32", "chunk": "i32"}
        for name, variant in {
            "stretch": {"table": False, "aligned": True, "together": TOGETHER},
            "runs": {"table": True, "aligned": True, "together": 1},
            "anywhere": {"table": True, "aligned": False, "together": TOGETHER},
        }.items():
            found[f"{name} {kind}"] = compiled(target, add_rows, rows, vector=vector, tile=TILE, **variant)
        elements = {"values": f"*{kind}", "pieces": "*i64", "numbers": "*fp64", **numbers, "runs": "i32"}
        found[f"elements {kind}"] = compiled(target, add_elements, elements, table=True)
    up = {"partial": "*fp64", "numbers": "*fp64", "programs": "i32", "segment": "i32"}
    found["up"] = compiled(target, add_up, up, block=16)
    for bits in (16, 32, 64):
        words = {"values": f"*i{bits}", "sums": "*i64", "count": "i64"}
        found[f"words {bits}"] = compiled(target, add_words, words, per_word=64 // bits, bits=bits, block=1024)
    return found


def main(target: str, *kinds: str) -> None:
    """Prints what was compiled."""
    nvidia = target.startswith("sm_")
    gpu = GPUTarget("cuda", int(target[3:]), 32) if nvidia else GPUTarget("hip", target, 64)
    facts = {
        name: {
            "wide_loads": one.asm["ptx"].count("ld.global.v4.b32") if nvidia else None,
            "binary": len(one.asm["cubin" if nvidia else "hsaco"]),
        }
        for name, one in all_kernels(gpu, list(kinds)).items()
    }
    print(json.dumps(facts))


if __name__ == "__main__":
    main(*sys.argv[1:])
