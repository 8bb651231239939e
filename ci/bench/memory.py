"""How much memory a task needs beyond what its process has already."""

from __future__ import annotations

import ctypes
import re
from collections.abc import Callable
from pathlib import Path

_STATUS, _CLEAR = Path("/proc/self/status"), Path("/proc/self/clear_refs")
_RESET_PEAK = "5"
_LIBC = ctypes.CDLL(None)


def peak_added(task: Callable[[], object]) -> int:
    """Bytes by which resident memory was higher at most during `task` than before it. Linux with glibc only."""
    # Memory that was freed but is still the process's would hide what the task takes of it.
    _LIBC.malloc_trim(0)
    _CLEAR.write_text(_RESET_PEAK)
    before = _resident("VmRSS")
    task()
    return max(0, _resident("VmHWM") - before)


def _resident(name: str) -> int:
    found = re.search(rf"^{name}:\s+(\d+) kB$", _STATUS.read_text(), re.MULTILINE)
    assert found, f"{_STATUS} has no {name}"
    return int(found[1]) * 1024
