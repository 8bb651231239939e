from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from gradassay.goldens.errors import UsageError
from gradassay.goldens.layout import Layout
from gradassay.goldens.record import read_record

pytestmark = [pytest.mark.dist, pytest.mark.frameworks, pytest.mark.slow]

NEWEST = "accelerate==1.15.0"
BOUNDS = {"float64": 1e-12, "float32": 1e-6, "bfloat16": 2e-2}
CELLS = """
accelerate==1.15.0 accelerate-ddp moe-tiny dp2.accum3 float32
accelerate==1.15.0 accelerate-ddp moe-tiny dp1.accum2 float32
accelerate==1.15.0 accelerate-ddp ragged-tiny dp4.accum2 bfloat16 sync_each_batch=true
accelerate==1.15.0 accelerate-ddp dense-tiny dp3.accum1 float32 static_graph=true
accelerate==1.15.0 accelerate-ddp moe-tiny dp2.accum2 float32 static_graph=true sync_each_batch=true
accelerate==1.15.0 accelerate-fsdp2 moe-tiny dp2.accum3 float32
accelerate==1.15.0 accelerate-fsdp2 ragged-tiny dp3.accum4 float32 sync_each_batch=true
accelerate==1.15.0 accelerate-fsdp2 moe-tiny dp4.replicate2.accum2 float32
accelerate==1.15.0 accelerate-fsdp2 dense-tiny dp2.accum2 float64 reshard_after_forward=false
accelerate==1.15.0 accelerate-fsdp2 ragged-tiny dp4.accum2 bfloat16
accelerate==1.15.0 accelerate-fsdp2 moe-tiny dp2.accum3 bfloat16 reduce_dtype=fp32 output_dtype=none
accelerate==1.10.1 accelerate-ddp moe-tiny dp2.accum3 bfloat16
accelerate==1.10.1 accelerate-fsdp2 ragged-tiny dp2.accum3 float32
accelerate==1.10.1 accelerate-fsdp2 moe-tiny dp4.replicate2.accum3 float32
accelerate==1.6.0 accelerate-ddp ragged-tiny dp2.accum3 float32
accelerate==1.6.0 accelerate-fsdp2 moe-tiny dp2.accum3 float32
accelerate==1.6.0 accelerate-fsdp2 ragged-tiny dp2.accum2 bfloat16
""".strip().splitlines()

Run = Callable[..., Path]


def run_cell(run: Run, text: str, **more: Any) -> Path:
    framework, strategy, problem, layout, dtype, *options = text.split()
    return run(framework, strategy, problem, layout, dtype=dtype, **dict(each.split("=") for each in options), **more)


@pytest.mark.parametrize("text", CELLS)
def test_reduced_gradient_is_the_objective(run: Run, units: Any, deviations: Any, text: str) -> None:
    framework, strategy, problem, layout, dtype = text.split()[:5]
    path = run_cell(run, text)
    found = deviations(path, units(problem, Layout.parse(layout).units).truth)
    assert max(family.error for family in found.values()) < BOUNDS[dtype], found
    record = read_record(path)
    header = record.header
    assert f"{header.framework.name}=={header.framework.version}" == framework
    assert record.captures["reduced.1"].rank_sketch is None, "copies agree to the last bit"
    # FSDP that Accelerate ignores leaves whole parameters on every rank.
    sharded = strategy.endswith("fsdp2") and header.layout.dp > 1
    assert all((parameter.shards is not None) == sharded for parameter in header.parameters)
    assert ("stand_in" in header.environment) == strategy.endswith("fsdp2")


@pytest.mark.parametrize("strategy", ["accelerate-ddp", "accelerate-fsdp2"])
def test_interference_reaches_the_reduced_gradient(run: Run, units: Any, deviations: Any, strategy: str) -> None:
    layout = Layout(dp=2, accum=2)
    path = run(NEWEST, strategy, "moe-tiny", str(layout), function="trainer_ranks:disturbed")
    basis = units("moe-tiny", layout.units)

    def expected(name: str) -> NDArray[np.float64]:
        tripled = np.ones(layout.units)
        if "norm" in name:
            tripled[layout.unit(1, 0)] = 3
        found: NDArray[np.float64] = basis.coefficients * tripled @ basis.loss[name]
        return found

    assert max(family.error for family in deviations(path, expected).values()) < BOUNDS["float32"]
    assert deviations(path, basis.truth)["norm"].error > 0.1


@pytest.mark.parametrize("framework", [NEWEST, "accelerate==1.6.0"])
@pytest.mark.parametrize("strategy", ["accelerate-ddp", "accelerate-fsdp2"])
def test_clipping_and_update_are_of_the_reduced_gradient(run: Run, framework: str, strategy: str) -> None:
    captures = read_record(run(framework, strategy, "moe-tiny", "dp2.accum2", function="trainer_ranks:staged")).captures
    assert set(captures) == {
        f"{stage}.{step}" for stage in ("local", "reduced", "clipped", "update") for step in (1, 2)
    }
    for step in (1, 2):
        reduced, clipped, update = (captures[f"{stage}.{step}"] for stage in ("reduced", "clipped", "update"))
        norm = np.sqrt(reduced.norm2.sum())
        assert norm > 0.1
        assert np.sqrt(clipped.norm2.sum()) == pytest.approx(0.1, rel=1e-4)
        assert clipped.sketch == pytest.approx(reduced.sketch * (0.1 / norm), rel=1e-4, abs=1e-7)
        assert np.linalg.norm(update.sketch - clipped.sketch) < 1e-3 * np.linalg.norm(clipped.sketch)
    assert not np.allclose(captures["reduced.1"].sketch, captures["reduced.2"].sketch), "the second step is another"


def test_bfloat16_output_of_fsdp2_rounds_the_division_by_the_accumulation_steps(
    run: Run, units: Any, deviations: Any
) -> None:
    truth = units("moe-tiny", 6).truth

    def ratios(**options: str) -> NDArray[np.float64]:
        path = run(NEWEST, "accelerate-fsdp2", "moe-tiny", "dp2.accum3", dtype="bfloat16", **options)
        found = deviations(path, truth)
        return np.array([[family.low, family.high] for family in found.values()]).mean(1)

    assert ratios().mean() == pytest.approx(1 + 2**-9, abs=6e-4)
    assert ratios(output_dtype="none").mean() == pytest.approx(1, abs=6e-4)


def test_what_a_release_lacks_is_said(run: Run) -> None:
    with pytest.raises(UsageError, match="has no replicas of shards"):
        run("accelerate==1.6.0", "accelerate-fsdp2", "moe-tiny", "dp4.replicate2")
    with pytest.raises(UsageError, match="runs comm_hook = bf16 with nccl only"):
        run(NEWEST, "accelerate-ddp", "moe-tiny", "dp2", comm_hook="bf16")


def test_compressed_reduction_is_coarser(run: Run, units: Any, deviations: Any) -> None:
    found = deviations(run(NEWEST, "accelerate-ddp", "moe-tiny", "dp2", comm_hook="fp16"), units("moe-tiny", 2).truth)
    assert 1e-5 < max(family.error for family in found.values()) < 1e-2
