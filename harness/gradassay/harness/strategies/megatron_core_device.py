"""What Megatron-Core needs of the stand-in for CUDA beyond streams and collectives."""

from __future__ import annotations

import contextlib
from contextlib import AbstractContextManager
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.overrides import TorchFunctionMode

from gradassay.harness.strategies import cuda_stand_in
from gradassay.harness.strategies.cuda_stand_in import Part

_all_to_all = dist.all_to_all_single


def all_to_all_single(
    output: Tensor, input: Tensor, output_split_sizes: Any = None, input_split_sizes: Any = None, **options: Any
) -> Any:
    """`torch.distributed.all_to_all_single`, which takes split sizes as tensors too: the package makes lists of a GPU's."""
    return _all_to_all(output, input, _listed(output_split_sizes), _listed(input_split_sizes), **options)


def _listed(sizes: Any) -> Any:
    return sizes.tolist() if isinstance(sizes, Tensor) else sizes


SPLITS = Part(name="splits", replacements=((dist, "all_to_all_single", all_to_all_single),))

NAMES = Part(name="names", replacements=())
"""What `on_this_device` does; a part, so that records name it."""


class _CpuForCuda(TorchFunctionMode):
    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        options = dict(kwargs or {})
        if options.get("device") == "cuda":
            options["device"] = "cpu"
        answer = func(*args, **options)
        if func is torch.Tensor.type and isinstance(answer, str):
            return answer.replace("torch.", "torch.cuda.", 1)
        return answer


def on_this_device() -> AbstractContextManager[Any]:
    """Within it tensors asked for on device "cuda" are made on the CPU, and `Tensor.type()` calls CPU tensors what they
    would be called on a GPU; nothing of that where CUDA is.
    """
    return _CpuForCuda() if cuda_stand_in.is_needed() else contextlib.nullcontext()
