"""The NVIDIA GPUs that ranks of this process may use, found without torch and without starting CUDA."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

VARIABLE = "CUDA_VISIBLE_DEVICES"
_LIBRARY = "libnvidia-ml.so.1"
_UUID_BYTES = 96


@dataclass(frozen=True, slots=True, kw_only=True)
class Gpu:
    """A GPU. name: as CUDA_VISIBLE_DEVICES names it. uuid: the same for every process of this machine."""

    name: str
    uuid: str


def visible_gpus(environment: Mapping[str, str] | None = None, *, uuids: Sequence[str] | None = None) -> list[Gpu]:
    """The GPUs of this machine that CUDA_VISIBLE_DEVICES leaves visible, in its order.

    uuids: of the GPUs that there are; by default the driver is asked. As for CUDA, names after one that means no GPU count
    for nothing.
    """
    variables = os.environ if environment is None else environment
    present = installed_gpus() if uuids is None else list(uuids)
    names = [str(number) for number in range(len(present))]
    if VARIABLE in variables:
        names = [name.strip() for name in variables[VARIABLE].split(",")]
    found: dict[str, Gpu] = {}
    for name in names if present else []:
        uuid = _uuid(name, present)
        if uuid is None:
            break
        found.setdefault(uuid, Gpu(name=name, uuid=uuid))
    return list(found.values())


def installed_gpus() -> list[str]:
    """The UUIDs of the GPUs that the NVIDIA driver shows to this process; none where there is no driver."""
    try:
        nvml = ctypes.CDLL(_LIBRARY)
    except OSError:
        return []
    if nvml.nvmlInit_v2() != 0:
        return []
    try:
        count = ctypes.c_uint()
        if nvml.nvmlDeviceGetCount_v2(ctypes.byref(count)) != 0:
            return []
        return [_uuid_of(nvml, number) for number in range(count.value)]
    finally:
        nvml.nvmlShutdown()


def _uuid_of(nvml: ctypes.CDLL, number: int) -> str:
    device, text = ctypes.c_void_p(), ctypes.create_string_buffer(_UUID_BYTES)
    failed = nvml.nvmlDeviceGetHandleByIndex_v2(number, ctypes.byref(device)) or nvml.nvmlDeviceGetUUID(
        device, text, _UUID_BYTES
    )
    return str(number) if failed else text.value.decode()


def _uuid(name: str, present: Sequence[str]) -> str | None:
    """The UUID of the GPU, or of its instance (MIG), that the name means; None where it means none."""
    if name.isdecimal():
        return present[int(name)] if int(name) < len(present) else None
    if name.startswith("MIG-"):
        return name
    matching = [uuid for uuid in present if name.startswith("GPU-") and uuid.startswith(name)]
    return matching[0] if len(matching) == 1 else None
