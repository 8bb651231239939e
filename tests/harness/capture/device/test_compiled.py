"""Kernels compile for GPUs that are not here: the interpreter does not look at what compilers refuse."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.triton

SCRIPT = Path(__file__).parent / "compile_kernels.py"


@pytest.mark.parametrize(
    ("target", "kinds"),
    [
        ("sm_90", ("bf16", "fp64")),
        pytest.param("sm_90", ("fp32", "fp16"), marks=pytest.mark.slow),
        pytest.param("sm_80", ("bf16", "fp32", "fp16", "fp64"), marks=pytest.mark.slow),
        pytest.param("gfx942", ("bf16", "fp32", "fp16", "fp64"), marks=pytest.mark.slow),
    ],
)
def test_kernels_compile(target: str, kinds: tuple[str, ...], triton_folder: Path, tmp_path: Path) -> None:
    environment = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    environment |= {"PYTHONPATH": str(triton_folder), "TRITON_CACHE_DIR": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, SCRIPT, target, *kinds], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    kernels = json.loads(done.stdout)
    assert len(kernels) == 4 * len(kinds) + 1 + 3
    assert all(kernel["binary"] > 1000 for kernel in kernels.values())
    if target.startswith("sm_"):
        wide = {name for name, kernel in kernels.items() if kernel["wide_loads"]}
        # float64 is read in 128 bits too, but as two numbers.
        assert wide == {f"{layout} {kind}" for layout in ("stretch", "runs") for kind in kinds if kind != "fp64"}
