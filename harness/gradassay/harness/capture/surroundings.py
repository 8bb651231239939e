"""Facts about where a run took place, for a record's header."""

from __future__ import annotations

import os
import platform
import subprocess
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from gradassay.goldens.header import Framework, Source
from gradassay.harness.capture.device.choice import described

_KERNEL_SETTINGS = (
    "ATEN_CPU_CAPABILITY",
    "MKL_CBWR",
    "MKL_ENABLE_INSTRUCTIONS",
    "ONEDNN_DEFAULT_FPMATH_MODE",
    "ONEDNN_MAX_CPU_ISA",
)


def environment(device: torch.device) -> dict[str, Any]:
    """Releases, device, backend and threads: what may explain a difference between two runs."""
    found: dict[str, Any] = {
        "torch": torch.__version__,
        "numpy": version("numpy"),
        "python": platform.python_version(),
        "gradassay": _own_version(),
        "device": device.type,
        "processor": _processor(),
        "backend": dist.get_backend() if dist.is_initialized() else "none",
        "threads": torch.get_num_threads(),
    }
    if device.type == "cuda":
        found |= {
            "gpu": torch.cuda.get_device_name(device),
            "cuda": torch.version.cuda or "",
            "sketched": described(),
        }
    return found | _kernels()


def _kernels() -> dict[str, Any]:
    """Which of its kernels torch chooses on CPUs, and what makes them round otherwise."""
    found: dict[str, Any] = {
        "instructions": torch.backends.cpu.get_cpu_capability(),
        "mkldnn": torch.backends.mkldnn.enabled,
        "denormals": "flushed" if torch.full((1,), 1e-310, dtype=torch.float64).mul(1.0).item() == 0.0 else "kept",
    }
    chosen = [f"{name}={os.environ[name]}" for name in _KERNEL_SETTINGS if os.environ.get(name)]
    return found | ({"kernel_settings": " ".join(chosen)} if chosen else {})


def torch_release() -> Framework:
    """torch itself as the framework of a run."""
    return Framework(name="torch", version=torch.__version__)


def source(folder: Path | None = None) -> Source:
    """The git commit of `folder` (by default the working directory), and whether its tree is changed."""
    where = folder or Path.cwd()
    commit = _git(where, "rev-parse", "HEAD")
    return Source(commit=commit, dirty=bool(commit and _git(where, "status", "--porcelain", "--untracked-files=no")))


def now() -> str:
    """The time in UTC, to the second, as in 2026-11-30T12:00:00Z."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _git(folder: Path, *arguments: str) -> str:
    try:
        done = subprocess.run(
            ["git", "-C", str(folder), *arguments], capture_output=True, text=True, timeout=10, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


def _own_version() -> str:
    try:
        return version("gradassay")
    except PackageNotFoundError:
        return ""


def _processor() -> str:
    information = Path("/proc/cpuinfo")
    if information.exists():
        for line in information.read_text(errors="replace").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()
