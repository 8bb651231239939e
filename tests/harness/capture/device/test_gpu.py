"""On a GPU: pytest -m gpu."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from gradassay.goldens.header import Parameter
from gradassay.goldens.sketch import measure_runs
from gradassay.harness.capture.device import choice
from gradassay.harness.capture.exchange import Exchange
from gradassay.harness.capture.piece import Piece, whole
from gradassay.harness.capture.surroundings import environment
from gradassay.harness.capture.take import take
from gradassay.harness.capture.units import UnitSketches

BENCHMARK = Path(__file__).parents[4] / "ci" / "bench" / "sketch_gpu.py"
KINDS = [torch.float32, torch.bfloat16, torch.float16, torch.float64]
ROWS, COLUMNS = 1000, 3000
UP = (Parameter(name="up", shape=(ROWS, COLUMNS), family="dense"), Parameter(name="scale", shape=(700,), family="norm"))

without_gpu = not torch.cuda.is_available()
on_gpu = [pytest.mark.gpu, pytest.mark.skipif(without_gpu, reason="torch sees no GPU")]


def alone() -> Exchange:
    return Exchange(group=None, device=torch.device("cpu"))


@pytest.fixture
def gpu() -> torch.device:
    assert choice.has_triton(), "a GPU, but no triton"
    return torch.device("cuda")


class TestOnGpu:
    pytestmark = on_gpu

    @pytest.mark.parametrize("kind", KINDS, ids=str)
    @pytest.mark.parametrize(
        "runs",
        [
            np.array([[0, ROWS * COLUMNS]]),
            np.array([[777, 1_500_001]]),
            np.array([[row * COLUMNS + 8, 1504] for row in range(ROWS)]),
            np.array([[row * COLUMNS + 1, 33] for row in range(ROWS)]),
        ],
        ids=["whole", "stretch", "columns", "narrow"],
    )
    def test_figures_are_those_of_the_cpu(self, kind: torch.dtype, runs: np.ndarray, gpu: torch.device) -> None:
        values = torch.randn(int(runs[:, 1].sum()), generator=torch.Generator().manual_seed(1)).to(kind)
        values[5], values[-1] = torch.nan, torch.inf
        exact = measure_runs(values.double().numpy(), runs, ROWS * COLUMNS)
        twice = []
        for _ in range(2):
            numbers = choice.numbers(1, gpu)
            numbers.add(0, values.to(gpu), runs, ROWS * COLUMNS)
            twice.append(numbers.read())
        (sketches, totals), again = twice
        assert np.array_equal(sketches, again[0])
        assert np.array_equal(totals, again[1])
        scale = (exact.norm2 / 1024) ** 0.5
        assert np.abs(sketches[0] - exact.sketch).max() < (1e-12 if kind == torch.float64 else 1e-5) * scale
        assert totals[0, :, 0].sum() == pytest.approx(exact.norm2, rel=1e-6)
        assert totals[0, :, 1].max() == exact.absmax
        assert totals[0, :, 2].sum() == 2

    def test_a_capture_is_that_of_the_cpu(self, gpu: torch.device) -> None:
        up, scale = torch.randn(ROWS * COLUMNS).bfloat16(), torch.randn(700)

        def pieces(device: str) -> list[Piece]:
            return [whole("up", up.to(device), numel=up.numel()), whole("scale", scale.to(device), numel=700)]

        there, here = (take(pieces(device), UP, alone(), full=True).capture for device in ("cuda", "cpu"))
        np.testing.assert_allclose(there.sketch, here.sketch, rtol=0, atol=1e-2)
        np.testing.assert_allclose(there.norm2, here.norm2, rtol=1e-6)
        assert there.full is not None
        assert here.full is not None
        assert np.array_equal(there.full["up"], here.full["up"])

    def test_copies_that_differ_in_one_bit_are_seen(self, gpu: torch.device) -> None:
        up = torch.randn(ROWS * COLUMNS, device=gpu)
        other = up.clone()
        other[12_345] = torch.nextafter(other[12_345], other.new_tensor(9.0))
        for copy, differs in ((up.clone(), False), (other, True)):
            pieces = [whole("up", up, numel=up.numel()), whole("up", copy, numel=up.numel(), replica=1)]
            assert (take(pieces, UP[:1], alone()).capture.rank_sketch is not None) == differs

    def test_hooks_do_not_wait_for_the_gpu(self, gpu: torch.device) -> None:
        up, scale = torch.randn(ROWS * COLUMNS, device=gpu), torch.randn(700, device=gpu)
        units = UnitSketches(UP, alone(), accum=3)
        for micro in range(3):
            # The first hook makes room and compiles.
            torch.cuda.set_sync_debug_mode("error" if micro else "default")
            try:
                units.add([whole("up", up, numel=up.numel())], micro)
                units.add([whole("scale", scale, numel=700)], micro)
            finally:
                torch.cuda.set_sync_debug_mode("default")
        capture = units.capture()
        assert capture.units is not None
        assert np.array_equal(capture.units[0], capture.units[2])
        exact = measure_runs(up.cpu().numpy(), np.array([[0, up.numel()]]), up.numel())
        assert np.abs(capture.units[1, 0] - exact.sketch).max() < 1e-5 * (exact.norm2 / 1024) ** 0.5

    def test_the_record_says_where_gradients_were_sketched(self, gpu: torch.device) -> None:
        assert environment(gpu)["sketched"].startswith("on the GPU, by triton ")

    @pytest.mark.slow
    def test_the_goal_is_met(self, gpu: torch.device) -> None:
        done = subprocess.run(
            [sys.executable, BENCHMARK, "--elements", "1e8"], capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.skipif(not without_gpu, reason="there is a GPU")
def test_without_a_gpu_nothing_is_measured() -> None:
    done = subprocess.run([sys.executable, BENCHMARK], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "nothing was measured" in done.stderr
