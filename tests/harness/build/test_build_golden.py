"""Goldens from real runs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from gradassay.goldens.assay.compare import assay_record
from gradassay.goldens.assay.result import Verdict
from gradassay.goldens.container import digest_of_file
from gradassay.goldens.errors import GoldenRefused, UsageError
from gradassay.goldens.golden import read_golden
from gradassay.goldens.layout import Layout
from gradassay.goldens.record import read_record
from gradassay.harness.build import Following, build_golden
from gradassay.harness.cell import Cell
from gradassay.harness.launch import Pool, Task, record_name
from gradassay.harness.problems import load_problem

pytestmark = pytest.mark.dist


@pytest.fixture(scope="module")
def pool() -> Iterator[Pool]:
    with Pool() as pool:
        yield pool


def _cells(problem: str, *texts: str, dtype: str = "float32") -> list[Cell]:
    pairs = (text.split() for text in texts)
    return [
        Cell(problem=problem, strategy=strategy, layout=Layout.parse(layout), dtype=dtype) for strategy, layout in pairs
    ]


def test_a_golden_of_real_references(pool: Pool, tmp_path: Path) -> None:
    cells = _cells("moe-tiny", "single dp1.accum4", "ddp dp2.accum2", "fsdp2 dp4.ep2.accum3", "zero1 dp2.ep2")
    golden = build_golden("moe-tiny", "float32", cells, pool=pool, folder=tmp_path)
    problem = load_problem("moe-tiny")
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(map(record_name, cells))
    assert [reference.record for reference in golden.header.references] == [
        digest_of_file(tmp_path / record_name(cell)) for cell in cells
    ]
    assert golden.header.terms == problem.terms
    assert golden.header.problem.digest == problem.digest
    basis = golden.bases[1]
    assert basis.sketch.shape == (problem.units, len(problem.parameters), 1024)
    assert sum(basis.terms.values()) == pytest.approx(basis.sketch, abs=1e-12)
    small = [index for index, parameter in enumerate(problem.parameters) if parameter.numel <= 1024]
    assert np.square(basis.sketch[:, small]).sum(axis=2) == pytest.approx(basis.norm2[:, small], rel=1e-12)

    golden.write(tmp_path / "golden.safetensors")
    again = read_golden(tmp_path / "golden.safetensors")
    assert again.header == golden.header
    assay = assay_record(read_record(tmp_path / record_name(cells[2])), again)
    assert assay.verdict is Verdict.AGREE
    assert max(assay.power.values()) < 1.00001


def test_the_truth_is_what_a_float64_run_of_all_units_gives(pool: Pool, tmp_path: Path) -> None:
    cells = _cells("ragged-tiny", "single dp1.accum24", "ddp dp2.accum12", dtype="float64")
    following = Following(units=24, learning_rate=0.25)
    golden = build_golden("ragged-tiny", "float64", cells, pool=pool, folder=tmp_path, following=following)
    floors = golden.header.noise.values()
    assert max(floor.q999 for floor in floors) < 1e-14
    second = golden.header.second
    assert second is not None
    assert max(floor.q999 for floor in second.noise.values()) < 1e-13
    assert abs(golden.bases[2].sketch - golden.bases[1].sketch).max() > 1e-3 * abs(golden.bases[1].sketch).max()
    files = [path for path in tmp_path.iterdir() if "steps=2" in path.name]
    assert len(files) == len(cells)
    for path in files:
        assert "reduced.1, reduced.2 agree" in assay_record(read_record(path), golden).notes


def test_a_second_step_needs_references_of_as_many_units(pool: Pool, tmp_path: Path) -> None:
    cells = _cells("dense-tiny", "single dp1.accum2", "ddp dp2.accum2")
    with pytest.raises(UsageError, match="1 references have 2 units") as raised:
        build_golden(
            "dense-tiny",
            "float32",
            cells,
            pool=pool,
            folder=tmp_path,
            following=Following(units=2, learning_rate=0.1),
        )
    assert "dp * accum = 2" in raised.value.hint


def test_references_that_fail_are_named(pool: Pool, tmp_path: Path) -> None:
    cells = _cells("dense-tiny", "single dp1", "hsdp dp2", "ddp dp2")
    with pytest.raises(GoldenRefused, match=r"1 of 3 references failed: dense-tiny hsdp dp2 float32: .*replicate"):
        build_golden("dense-tiny", "float32", cells, pool=pool, folder=tmp_path)
    assert record_name(cells[1]) not in {path.name for path in tmp_path.iterdir()}


def test_stopping_leaves_nothing_half_written(pool: Pool, tmp_path: Path) -> None:
    class Stops:
        @contextmanager
        def stage(self, title: str, total: int) -> Iterator[object]:
            def advance(label: str, *, ok: bool = True) -> None:
                raise KeyboardInterrupt

            yield advance

    with pytest.raises(KeyboardInterrupt):
        build_golden("dense-tiny", "float32", _cells("dense-tiny", "ddp dp2", "ddp dp4"), pool=pool, folder=tmp_path,
                     progress=Stops())  # fmt: skip
    assert list(tmp_path.iterdir()) == []
    [outcome] = pool.run([Task(cell=_cells("dense-tiny", "ddp dp2")[0], out=tmp_path / "again")])
    assert outcome.path is not None


def test_cells_that_are_no_references(pool: Pool, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no reference for moe-tiny in float32"):
        build_golden("moe-tiny", "float32", _cells("dense-tiny", "ddp dp2"), pool=pool, folder=tmp_path)
    faulty = Cell(problem="moe-tiny", strategy="ddp", layout=Layout(dp=2), fault="zero:expert")
    with pytest.raises(UsageError, match="has an injected fault"):
        build_golden("moe-tiny", "float32", [faulty], pool=pool, folder=tmp_path)
