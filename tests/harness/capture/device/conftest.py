"""Triton in the process that was started for it, where its interpreter runs kernels on tensors of the CPU."""

from __future__ import annotations

import os
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from gradassay.goldens.sketch import Measurement
from gradassay.harness.capture.device import choice
from gradassay.harness.environments import ROOT_SETTING
from gradassay.harness.zoo import install

CHECKOUT = Path(__file__).parents[4]


@pytest.fixture(scope="session")
def triton_folder() -> Path:
    """The folder that triton is imported from, installed where it is missing."""
    release = tomllib.loads((CHECKOUT / "ci" / "zoo.toml").read_text())["triton"]["releases"][0]
    root = Path(os.environ.get(ROOT_SETTING, CHECKOUT / ".zoo"))
    return install(f"triton=={release}", root=root, constraints=CHECKOUT / "ci" / "constraints.txt")


@pytest.fixture(scope="session")
def interpreted(request: pytest.FixtureRequest) -> None:
    """Makes triton importable, and its kernels run in its interpreter, from here to the end of the process."""
    if not request.config.option.markexpr.startswith("triton"):
        pytest.skip("needs a process of its own, as others look whether triton is there: make triton-test")
    os.environ["TRITON_INTERPRET"] = "1"
    sys.path.append(str(request.getfixturevalue("triton_folder")))
    choice.has_triton.cache_clear()
    assert choice.has_triton()


@pytest.fixture
def on_device(interpreted: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tensors of the CPU are sketched as those of a GPU are."""
    monkeypatch.setattr(choice, "stays", lambda values: True)


@pytest.fixture(scope="session")
def measure_there(interpreted: None) -> Callable[..., Measurement]:
    """`measure_runs` by the kernels of GPUs; runs None for the whole parameter."""

    def measure(values: torch.Tensor, runs: NDArray[np.int64] | None = None, total: int | None = None) -> Measurement:
        numbers = choice.numbers(1, values.device)
        runs = np.array([[0, len(values)]]) if runs is None else runs
        numbers.add(0, values, runs, len(values) if total is None else total)
        sketches, totals = numbers.read()
        return Measurement(
            sketch=sketches[0],
            norm2=totals[0, :, 0].sum(),
            absmax=totals[0, :, 1].max(),
            nonfinite=int(totals[0, :, 2].sum()),
        )

    return measure
