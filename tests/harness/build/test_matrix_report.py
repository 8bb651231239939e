"""The report of `make matrix`: its table, and when it fails."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from gradassay.goldens.assay.compare import assay_record
from gradassay.goldens.golden import Golden
from gradassay.goldens.layout import Layout
from gradassay.goldens.record import Record
from gradassay.harness.cell import Cell
from gradassay.harness.launch import Pool
from gradassay.harness.matrix import parse_matrix

SCRIPT = Path(__file__).parents[3] / "ci/matrix_report.py"


@pytest.fixture(scope="module")
def report() -> ModuleType:
    spec = importlib.util.spec_from_file_location("matrix_report", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["matrix_report"] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def result(
    report: ModuleType, make_golden: Callable[..., Golden], make_record: Callable[..., Record]
) -> Callable[..., Any]:
    def build(strategy: str, *, noise: float | None = None, **options: Any) -> Any:
        layout = Layout(dp=4, accum=2)
        assay = assay_record(make_record(layout=layout, **options), make_golden(noise=noise))
        cell = Cell(problem="toy", strategy=strategy, layout=layout)
        return report.Result(cell=cell, seconds=1.5, assay=assay)

    return build


def test_a_row_for_every_strategy(report: ModuleType, result: Callable[..., Any]) -> None:
    results = [result("fsdp2"), result("ddp"), result("fsdp2", weights={"expert": 2.0})]
    text = report.table(results, matrix="m.toml", seconds=" in 3 s")
    rows = [line.split(" | ") for line in text.splitlines() if line.startswith("| toy")]
    assert [row[1:5] for row in rows] == [["ddp", "float32", "1", "1"], ["fsdp2", "float32", "2", "1"]]
    assert [float(row[5]) < 1 for row in rows] == [True, False]
    assert [row[7] for row in rows] == ["2 |", "3 |"]
    assert "2 of 3 cells agree." in text
    assert "- toy fsdp2 dp4.accum2 float32: diverge" in text
    assert [one.agrees for one in results] == [True, True, False]


def test_too_little_power_is_no_agreement(report: ModuleType, result: Callable[..., Any]) -> None:
    weak = result("ddp", noise=1e-4)
    assert weak.assay.verdict == "agree"
    assert not weak.agrees
    assert "agrees, but its power is 1.0000" in report.table([weak], matrix="m.toml")


def test_a_cell_that_failed_is_no_agreement(report: ModuleType) -> None:
    cell = Cell(problem="toy", strategy="ddp", layout=Layout(dp=4))
    failed = report.Result(cell=cell, seconds=0.1, reason="rank 1: ValueError: no")
    assert not failed.agrees
    assert "- toy ddp dp4 float32: rank 1: ValueError: no" in report.table([failed], matrix="m.toml")


@pytest.mark.parametrize(("weight", "code"), [(1.0, 0), (1.01, 1)])
def test_the_exit_code_is_1_where_a_cell_does_not_agree(
    report: ModuleType,
    result: Callable[..., Any],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    weight: float,
    code: int,
) -> None:
    monkeypatch.setattr(report, "run", lambda *_: [result("ddp", weights={"expert": weight})])
    assert report.main(["--table", str(tmp_path / "page.md")]) == code
    assert "| toy | ddp | float32 | 1 |" in (tmp_path / "page.md").read_text()


@pytest.mark.dist
def test_cells_run_against_goldens_that_are_built_for_them(
    report: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    references = parse_matrix(
        """
[[matrix]]
problems = "dense-tiny"
strategies = "single"
layouts = ["dp1.accum3", "dp1.accum4", "dp1.accum5"]
""",
        Path("references.toml"),
    )
    monkeypatch.setattr(report, "golden_matrix", lambda *_: references)
    cells = [
        Cell(problem="dense-tiny", strategy="fsdp2", layout=Layout(dp=2, accum=2)),
        Cell(problem="dense-tiny", strategy="hsdp", layout=Layout(dp=2)),
    ]
    with Pool() as pool:
        healthy, impossible = report.run(cells, tmp_path, pool)
    assert healthy.agrees
    assert healthy.worst < 1
    assert "rank 0: hsdp needs replicas of its shards" in impossible.reason
    assert not impossible.agrees
