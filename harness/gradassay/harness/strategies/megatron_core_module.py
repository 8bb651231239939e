"""The megatron.core package made ready for ranks; a fork server imports this once. Needs a Megatron-Core release.

No line of the package is touched. Written for CUDA alone, it runs behind a stand-in where there is none. Two more things
that it takes for granted get a placeholder, which records name: the kernel compiler triton, which releases from 0.19 on
import whether or not anything calls it, and a kernel of Transformer Engine that the router of older ones asks for by name
where Transformer Engine is not installed.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import sys
import warnings

from gradassay.goldens.errors import UsageError
from gradassay.harness.strategies import cuda_stand_in
from gradassay.harness.strategies.cuda_stand_in import COLLECTIVES, STREAMS, device
from gradassay.harness.strategies.megatron_core_device import NAMES, SPLITS
from gradassay.harness.strategies.triton_placeholder import without_triton

_NEWEST_MODULE = "megatron.core.models.gpt.moe_module_specs"
_MODULES = (
    "megatron.core",
    "megatron.core.distributed",
    "megatron.core.distributed.finalize_model_grads",
    _NEWEST_MODULE,
    "megatron.core.optimizer",
    "megatron.core.parallel_state",
    "megatron.core.pipeline_parallel.schedules",
    "megatron.core.transformer.moe.moe_utils",
)

if importlib.util.find_spec("megatron") is None:
    raise ModuleNotFoundError("No module named 'megatron'", name="megatron")
if cuda_stand_in.is_needed():
    cuda_stand_in.install(STREAMS, COLLECTIVES, SPLITS, NAMES, device("cpu"))

placeholders: list[str] = []
"""Names that stand for something that this release looks up and that is not installed."""

with warnings.catch_warnings(), contextlib.redirect_stdout(sys.stderr):
    warnings.simplefilter("ignore")
    try:
        for _name in _MODULES:
            importlib.import_module(_name)
    except ModuleNotFoundError as _error:
        if _error.name == _NEWEST_MODULE:
            raise UsageError(
                "this release of megatron-core cannot make its mixture-of-experts layer without Transformer Engine",
                hint="use megatron-core==0.11.0 or newer",
            ) from _error
        if _error.name != "triton":
            raise
        placeholders.append("triton")
        with without_triton():
            for _name in _MODULES:
                importlib.import_module(_name)

_moe_utils = importlib.import_module("megatron.core.transformer.moe.moe_utils")
if not hasattr(_moe_utils, "te_general_gemm"):
    placeholders.append("te_general_gemm")
    vars(_moe_utils)["te_general_gemm"] = None

version: str = importlib.import_module("megatron.core").__version__.split("+")[0]

__all__ = ["placeholders", "version"]
