"""Names that old DeepSpeed releases import and that a newer torch or numpy, or a machine without GPU, lacks.

None of them is used in training: a launcher's socket and log, a constant of a tuner, and two packages of Intel that 0.14.0
and before import for CPUs, calling one only to communicate by oneCCL; gloo does that here, as later releases choose
themselves where the package is missing. No line of DeepSpeed is replaced; every record made with such a name says so.
"""

from __future__ import annotations

import logging
import os
import sys
from importlib import import_module
from importlib.metadata import version
from importlib.util import find_spec
from types import ModuleType
from typing import Any

_NAMES: tuple[tuple[str, str, Any], ...] = (
    ("torch.distributed.elastic.agent.server.api", "_get_socket_with_port", None),
    ("torch.distributed.elastic.agent.server.api", "log", logging.getLogger("torch.distributed.elastic")),
    ("numpy", "BUFSIZE", 8192),
)
_LAST_WITH_NAMES = (0, 14, 4)
_CCL = "oneccl_bindings_for_pytorch"
_PACKAGES = ("intel_extension_for_pytorch", _CCL)
_LAST_WITH_PACKAGES = (0, 14, 0)


def put_in_place() -> tuple[str, ...]:
    """Adds what the installed release imports and what is missing here; what was added, by name."""
    release = tuple(int(part) for part in version("deepspeed").split("+")[0].split(".")[:3])
    added = []
    if release <= _LAST_WITH_NAMES:
        for module_name, name, value in _NAMES:
            module = import_module(module_name)
            if not hasattr(module, name):
                setattr(module, name, value)
                added.append(f"{module_name}.{name}")
    if release <= _LAST_WITH_PACKAGES and os.environ.get("DS_ACCELERATOR") == "cpu":
        for package in _PACKAGES:
            if find_spec(package) is None:
                sys.modules[package] = ModuleType(package)
                added.append(package)
    return tuple(added)


def communicate(accelerator: Any) -> None:
    """Lets DeepSpeed's CPU accelerator communicate by gloo where oneCCL was put in place by name only."""
    if _CCL in sys.modules and sys.modules[_CCL].__spec__ is None:
        accelerator._communication_backend_name = "gloo"
