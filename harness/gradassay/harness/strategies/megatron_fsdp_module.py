"""The megatron_fsdp package made ready for ranks; a fork server imports this once. Needs a Megatron-FSDP release.

The package is written for CUDA alone. Where there is none, `cuda_stand_in` is put in place before it is imported.
"""

from __future__ import annotations

import logging
import warnings
from importlib import import_module
from typing import Any

# Before the stand-in, whose functions it would take for torch's own.
from gradassay.harness.strategies import cuda_stand_in
from gradassay.harness.strategies.cuda_stand_in import COLLECTIVES, STREAMS, device

if cuda_stand_in.is_needed():
    cuda_stand_in.install(STREAMS, COLLECTIVES, device(0))

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    megatron_fsdp: Any = import_module("megatron_fsdp")

# It warns on every rank that the model's device is not the current CUDA device.
logging.getLogger("megatron_fsdp").setLevel(logging.ERROR)

__all__ = ["megatron_fsdp"]
