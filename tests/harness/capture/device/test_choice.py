"""Where gradients are sketched is chosen by what is there, and said."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from gradassay.goldens.errors import UsageError
from gradassay.harness.capture.device import choice


@pytest.fixture
def asked_again() -> Iterator[None]:
    choice.has_triton.cache_clear()
    yield
    choice.has_triton.cache_clear()


class OnGpu:
    """As much of a tensor as is asked where it lies."""

    is_cuda = True


def test_tensors_of_the_cpu_are_never_sketched_elsewhere() -> None:
    assert not choice.stays(torch.zeros(3))


def test_without_triton_a_gpu_is_not_used_and_records_say_so(
    asked_again: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    monkeypatch.delitem(sys.modules, "triton", raising=False)
    assert not choice.stays(OnGpu())  # type: ignore[arg-type]
    assert choice.described() == "on the CPU: triton is not installed"


def test_a_triton_that_does_not_work_is_an_error(
    asked_again: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "triton").mkdir()
    (tmp_path / "triton" / "__init__.py").write_text("raise ImportError('libcuda.so.1: no such file')\n")
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    for name in [name for name in sys.modules if name.partition(".")[0] == "triton"]:
        monkeypatch.delitem(sys.modules, name)
    assert choice.stays(OnGpu())  # type: ignore[arg-type]
    for ask in (choice.described, lambda: choice.numbers(1, torch.device("cpu")), lambda: choice.fingerprints([])):
        with pytest.raises(UsageError, match=r"cannot be imported: libcuda"):
            ask()


@pytest.mark.triton
@pytest.mark.usefixtures("interpreted")
def test_with_triton_a_gpu_is_used_and_records_name_the_release(triton_folder: Path) -> None:
    assert choice.stays(OnGpu())  # type: ignore[arg-type]
    release = triton_folder.name.partition("-")[2]
    assert choice.described() == f"on the GPU, by triton {release}"


def test_the_harness_does_not_import_triton() -> None:
    code = "import sys, gradassay.harness; print([name for name in sys.modules if name.startswith('triton')])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
