"""What a benchmark ran on, without names of hosts and paths."""

from __future__ import annotations

import os
import platform
import re
from importlib.metadata import version
from pathlib import Path

PACKAGES = ("torch", "numba", "numpy")


def machine() -> dict[str, str]:
    """Processor, cores of this process, memory, and releases of what computes."""
    return {
        "processor": _processor(),
        "cores": str(len(os.sched_getaffinity(0))),
        "memory": f"{os.sysconf('SC_PAGE_SIZE') * os.sysconf('SC_PHYS_PAGES') / 2**30:.0f} GiB",
        "python": platform.python_version(),
        **{name: version(name) for name in PACKAGES},
    }


def _processor() -> str:
    text = Path("/proc/cpuinfo").read_text()
    model = re.search(r"^model name\s*:\s*(.+)$", text, re.MULTILINE)
    cache = re.search(r"^cache size\s*:\s*(.+)$", text, re.MULTILINE)
    name = model[1].strip() if model else platform.machine()
    return f"{name}, {cache[1].strip()} cache" if cache else name
