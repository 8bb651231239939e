from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from gradassay.goldens.assay.compare import assay_record
from gradassay.goldens.assay.result import Verdict
from gradassay.goldens.errors import UsageError
from gradassay.goldens.golden import Golden
from gradassay.goldens.layout import Layout
from gradassay.goldens.record import read_record
from gradassay.harness.build import build_golden
from gradassay.harness.cell import Cell
from gradassay.harness.launch import Pool

pytestmark = [pytest.mark.dist, pytest.mark.frameworks, pytest.mark.slow]

NEWEST = "torchtitan==0.3.0"
WITH_DDP = "torchtitan==0.2.2"
BOUNDS = {"float64": 1e-12, "float32": 1e-6, "bfloat16": 2e-2}
CELLS = """
torchtitan==0.3.0 torchtitan-fsdp2 moe-tiny dp2.accum3 float32
torchtitan==0.3.0 torchtitan-fsdp2 moe-tiny dp1.accum2 float32
torchtitan==0.3.0 torchtitan-fsdp2 moe-tiny dp4.ep2.accum2 float32
torchtitan==0.3.0 torchtitan-fsdp2 moe-tiny dp2.ep2.accum2 bfloat16
torchtitan==0.3.0 torchtitan-fsdp2 moe-tiny dp4.replicate2.accum2 float32 reshard=never
torchtitan==0.3.0 torchtitan-fsdp2 moe-tiny dp4.ep2.replicate2 float32
torchtitan==0.3.0 torchtitan-fsdp2 moe-tiny dp2.replicate2.accum2 float32
torchtitan==0.3.0 torchtitan-fsdp2 dense-tiny dp2.accum2 float64 reshard=always
torchtitan==0.3.0 torchtitan-fsdp2 ragged-tiny dp3.accum2 float32 loss=trainer
torchtitan==0.3.0 torchtitan-fsdp2 ragged-tiny dp2.accum2 bfloat16
torchtitan==0.2.2 torchtitan-fsdp2 moe-tiny dp4.ep2.accum2 float32
torchtitan==0.2.2 torchtitan-fsdp2 moe-tiny dp2.accum3 float32 loss=trainer
torchtitan==0.2.2 torchtitan-ddp ragged-tiny dp3.accum4 float32
torchtitan==0.2.2 torchtitan-ddp moe-tiny dp1.accum2 float32 loss=trainer
torchtitan==0.2.2 torchtitan-ddp moe-tiny dp2.accum2 bfloat16
torchtitan==0.2.1 torchtitan-fsdp2 moe-tiny dp4.ep2.accum2 float32
torchtitan==0.2.1 torchtitan-fsdp2 moe-tiny dp2.ep2.accum2 float32
torchtitan==0.2.1 torchtitan-fsdp2 moe-tiny dp4.replicate2.accum3 float32 loss=trainer
torchtitan==0.2.1 torchtitan-ddp moe-tiny dp2.accum3 float32 loss=trainer
""".strip().splitlines()

Run = Callable[..., Path]


def run_cell(run: Run, text: str, **more: Any) -> Path:
    framework, strategy, problem, layout, dtype, *options = text.split()
    return run(framework, strategy, problem, layout, dtype=dtype, **dict(each.split("=") for each in options), **more)


def sums(framework: str, strategy: str, options: list[str]) -> bool:
    """Whether this run sums over ranks and leaves the division to its caller."""
    return framework != "torchtitan==0.2.1" and strategy == "torchtitan-fsdp2" and "loss=trainer" not in options


@pytest.mark.parametrize("text", CELLS)
def test_reduced_gradient_is_the_objective_times_the_declared_convention(
    run: Run, units: Any, deviations: Any, text: str
) -> None:
    framework, strategy, problem, cell, dtype, *options = text.split()
    layout = Layout.parse(cell)
    path = run_cell(run, text)
    scale = layout.dp if sums(framework, strategy, options) else 1
    found = deviations(path, units(problem, layout.units).truth, lambda family: scale)
    assert max(family.error for family in found.values()) < BOUNDS[dtype], found
    record = read_record(path)
    header = record.header
    assert f"{header.framework.name}=={header.framework.version}" == framework
    assert header.convention == ({"all": "dp"} if sums(framework, strategy, options) else {})
    assert record.captures["reduced.1"].rank_sketch is None, "copies agree to the last bit"


def test_a_shard_is_all_that_a_rank_holds(run: Run) -> None:
    record = read_record(run(NEWEST, "torchtitan-fsdp2", "moe-tiny", "dp2"))
    assert all(parameter.shards is not None for parameter in record.header.parameters)
    parts = record.header.environment["stand_in"]["parts"]
    assert parts == ["torchtitan: meshes on cpu", "sums before factors"]


@pytest.fixture(scope="module")
def golden(framework_pool: Pool, tmp_path_factory: pytest.TempPathFactory) -> Golden:
    """Of moe-tiny in float32."""
    layouts = ("dp2.accum3", "dp4.accum2", "dp3.accum2")
    cells = [Cell(problem="moe-tiny", strategy="ddp", layout=Layout.parse(layout)) for layout in layouts]
    return build_golden("moe-tiny", "float32", cells, pool=framework_pool, folder=tmp_path_factory.mktemp("golden"))


def test_sums_agree_as_declared_and_diverge_undeclared(run: Run, golden: Golden) -> None:
    record = read_record(run(NEWEST, "torchtitan-fsdp2", "moe-tiny", "dp4.accum3"))
    declared = assay_record(record, golden)
    assert declared.verdict is Verdict.AGREE
    assert any("declared convention" in note and "'all': 'dp'" in note for note in declared.notes)
    undeclared = assay_record(replace(record, header=replace(record.header, convention={})), golden)
    assert undeclared.verdict is Verdict.DIVERGE
    assert [finding.law.formula for finding in undeclared.findings] == ["w[r,m] = dp"]


def test_ddp_of_0_2_2_averages_what_its_trainer_has_divided(run: Run, golden: Golden) -> None:
    assay = assay_record(read_record(run(WITH_DDP, "torchtitan-ddp", "moe-tiny", "dp2.accum3", loss="trainer")), golden)
    assert assay.verdict is Verdict.DIVERGE
    assert [finding.law.formula for finding in assay.findings] == ["w[r,m] = 1/dp"]
    assert "torchtitan-2318" in assay.findings[0].known_faults


@pytest.mark.parametrize(
    ("framework", "strategy"), [(NEWEST, "torchtitan-fsdp2"), (WITH_DDP, "torchtitan-ddp")], ids=["fsdp2", "ddp"]
)
def test_interference_reaches_the_reduced_gradient(
    run: Run, units: Any, deviations: Any, framework: str, strategy: str
) -> None:
    layout = Layout(dp=2, accum=2)
    path = run(framework, strategy, "moe-tiny", str(layout), function="trainer_ranks:disturbed")
    basis, scale = units("moe-tiny", layout.units), layout.dp if strategy == "torchtitan-fsdp2" else 1

    def expected(name: str) -> NDArray[np.float64]:
        tripled = np.ones(layout.units)
        if "norm" in name:
            tripled[layout.unit(1, 0)] = 3
        found: NDArray[np.float64] = basis.coefficients * tripled @ basis.loss[name]
        return found

    found = deviations(path, expected, lambda family: scale)
    assert max(family.error for family in found.values()) < BOUNDS["float32"]
    assert deviations(path, basis.truth, lambda family: scale)["norm"].error > 0.1


@pytest.mark.parametrize("layout", ["dp2.accum2", "dp4.replicate2"])
@pytest.mark.parametrize(
    ("framework", "strategy"), [(NEWEST, "torchtitan-fsdp2"), (WITH_DDP, "torchtitan-ddp")], ids=["fsdp2", "ddp"]
)
def test_clipping_and_update_are_of_the_reduced_gradient(run: Run, framework: str, strategy: str, layout: str) -> None:
    if strategy == "torchtitan-ddp":
        layout = layout.replace(".replicate2", "")
    captures = read_record(run(framework, strategy, "moe-tiny", layout, function="trainer_ranks:staged")).captures
    for step in (1, 2):
        reduced, clipped, update = (captures[f"{stage}.{step}"] for stage in ("reduced", "clipped", "update"))
        norm = np.sqrt(reduced.norm2.sum())
        assert norm > 0.1
        assert np.sqrt(clipped.norm2.sum()) == pytest.approx(0.1, rel=1e-4)
        assert clipped.sketch == pytest.approx(reduced.sketch * (0.1 / norm), rel=1e-4, abs=1e-7)
        assert np.linalg.norm(update.sketch - clipped.sketch) < 1e-3 * np.linalg.norm(clipped.sketch)
    assert not np.allclose(captures["reduced.1"].sketch, captures["reduced.2"].sketch), "the second step is another"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("torchtitan==0.2.0 torchtitan-fsdp2 moe-tiny dp2 float32", "lays out its meshes otherwise"),
        ("torchtitan==0.3.0 torchtitan-ddp moe-tiny dp2 float32", "0.3.0 has no DDP"),
        ("torchtitan==0.2.2 torchtitan-fsdp2 ragged-tiny dp2 float32", "frees the embedding of ragged-tiny"),
        ("torchtitan==0.3.0 torchtitan-fsdp2 ragged-tiny dp2 float32 reshard=always", "frees the embedding"),
        ("torchtitan==0.2.2 torchtitan-fsdp2 moe-tiny dp2.replicate2 float32", "does not shard over dp/replicate = 1"),
    ],
)
def test_what_a_release_lacks_is_said(run: Run, text: str, reason: str) -> None:
    with pytest.raises(UsageError, match=reason):
        run_cell(run, text)
