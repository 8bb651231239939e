"""The parts of torchtitan that parallelise a model, made ready for ranks; a fork server imports this once.

No line of the package is touched. Its lists of models, whose tokenizers and data loaders nothing here needs, are not
imported, and the kernel compiler triton has a placeholder where it is not installed: `placeholders` names it for records.
"""

from __future__ import annotations

import importlib
import importlib.util
import re
import sys
import types
import warnings
from contextlib import nullcontext
from importlib.metadata import version as version_of
from pathlib import Path
from typing import Any

from gradassay.harness.strategies.triton_placeholder import without_triton

_found = importlib.util.find_spec("torchtitan")
if _found is None or not _found.submodule_search_locations:
    raise ModuleNotFoundError("No module named 'torchtitan'", name="torchtitan")
_FOLDER = Path(_found.submodule_search_locations[0])

version = version_of("torchtitan")
"""The release."""

_release = tuple(int(number) for number in re.findall(r"\d+", version)[:3])
supported = _release >= (0, 2, 1)
"""Whether anything below was imported; older releases lay out their meshes otherwise."""

newest = _release >= (0, 3)
"""Whether it shards every model by one function, `apply_fsdp_to_decoder`, and has no DDP."""

placeholders: list[str] = []
"""Names that stand for something that this release imports and that is not installed."""


def _without_its_own_imports(name: str) -> None:
    """Makes a package importable without running its `__init__`; what lies in it is imported as ever."""
    package = types.ModuleType(name)
    package.__path__ = [str(_FOLDER.joinpath(*name.split(".")[1:]))]
    sys.modules[name] = package


if not newest and importlib.util.find_spec("triton") is None:
    placeholders.append("triton")

parallel_dims: Any = None
_utilities: Any = None
_sharding: Any = None
if supported:
    with warnings.catch_warnings(), without_triton() if placeholders else nullcontext():
        warnings.simplefilter("ignore")
        if not newest:
            for _name in ("torchtitan.models", "torchtitan.models.llama3", "torchtitan.models.llama4"):
                _without_its_own_imports(_name)
        parallel_dims = importlib.import_module("torchtitan.distributed.parallel_dims")
        _utilities = importlib.import_module("torchtitan.distributed.utils")
        _sharding = importlib.import_module(
            "torchtitan.distributed.fsdp" if newest else "torchtitan.models.llama4.infra.parallelize"
        )

clip_grad_norm: Any = getattr(_utilities, "clip_grad_norm_", None)

apply_fsdp: Any = getattr(_sharding, "apply_fsdp_to_decoder" if newest else "apply_fsdp", None)
"""Shards a model; 0.2.x has one of its own beside every model, of which this is the one that knows experts."""

apply_ddp: Any = getattr(_sharding, "apply_ddp", None)
"""Replicates a model; None where the release has no such thing."""

divides = not hasattr(_sharding, "disable_fsdp_gradient_division")
"""Whether its FSDP averages over data-parallel ranks; otherwise it sums, and its trainer divides the loss by all tokens."""

__all__ = [
    "apply_ddp",
    "apply_fsdp",
    "clip_grad_norm",
    "divides",
    "newest",
    "parallel_dims",
    "placeholders",
    "supported",
    "version",
]
