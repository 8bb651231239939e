"""Facts of where a run took place: which kernels torch chose, and what was set for them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

from gradassay.harness.capture.surroundings import environment

CPU = torch.device("cpu")


@pytest.fixture
def flushed() -> Iterator[None]:
    if not torch.set_flush_denormal(True):
        pytest.skip("this processor cannot flush denormals")
    yield
    torch.set_flush_denormal(False)


def test_denormals_are_kept_by_default() -> None:
    assert environment(CPU)["denormals"] == "kept"


def test_flushed_denormals_are_said(flushed: None) -> None:
    assert environment(CPU)["denormals"] == "flushed"


def test_mkldnn_is_said() -> None:
    assert environment(CPU)["mkldnn"] is True
    with torch.backends.mkldnn.flags(enabled=False):
        assert environment(CPU)["mkldnn"] is False


def test_settings_of_kernels_are_said_where_there_are_any(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ONEDNN_MAX_CPU_ISA", raising=False)
    monkeypatch.delenv("MKL_CBWR", raising=False)
    before = environment(CPU)
    assert before["instructions"] == torch.backends.cpu.get_cpu_capability()
    assert "ONEDNN_MAX_CPU_ISA" not in before.get("kernel_settings", "")
    monkeypatch.setenv("ONEDNN_MAX_CPU_ISA", "SSE41")
    monkeypatch.setenv("MKL_CBWR", "COMPATIBLE")
    assert environment(CPU)["kernel_settings"].endswith("MKL_CBWR=COMPATIBLE ONEDNN_MAX_CPU_ISA=SSE41")
