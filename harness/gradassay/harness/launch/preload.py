"""What every rank needs and is dear to import: done once, before the first fork."""

from __future__ import annotations

import gc
import importlib
from collections.abc import Sequence

MODULES = (
    "torch",
    "torch._dynamo",
    "torch.distributed.fsdp",
    "pydantic.dataclasses",
    "gradassay.harness.problems.moe",
    "gradassay.harness.worker",
)


def preload(modules: Sequence[str]) -> None:
    """Imports torch, the worker, all strategies and then `modules`, and loads the compiled sketch kernels.

    Starts no thread, and leaves accelerators and process groups alone. Raises what a module raises.
    """
    from gradassay.harness.strategies import STRATEGIES

    strategies = sorted({f"gradassay.harness.strategies.{path.partition(':')[0]}" for path in STRATEGIES.values()})
    for module in (*MODULES, *strategies, *modules):
        importlib.import_module(module)
    _load_kernels()
    import torch

    torch.set_num_threads(1)
    gc.collect()
    gc.freeze()


def _load_kernels() -> None:
    from numba import types

    from gradassay.goldens.kernel.segments import add_all
    from gradassay.harness.capture.fingerprint import mixed

    mixed.compile((types.Array(types.uint64, 1, "C"),))
    for element in (types.float32, types.float64):
        values, runs = types.Array(element, 1, "C"), types.Array(types.int64, 2, "C")
        filled = types.Array(types.float64, 1, "C")
        add_all.compile((values, runs, types.int64, filled, filled))
