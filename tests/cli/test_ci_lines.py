"""From cells to lines of a job's result, by the goldens of a folder; and what the lines come to together."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from gradassay.cli.integration.job import shown_path
from gradassay.cli.integration.lines import failed_job, result_of
from gradassay.cli.integration.local import judge_locally
from gradassay.cli.integration.recorded import Recorded
from gradassay.forges.outcome import CellLine
from gradassay.goldens.errors import CellFailed, Exit, InvalidFile
from gradassay.goldens.layout import Layout
from gradassay.goldens.record import Record
from gradassay.goldens.store.directory import DirectoryStore
from gradassay.harness.cell import Cell

if TYPE_CHECKING:
    from conftest import Files

CELL = Cell(problem="toys:toy", strategy="ddp", layout=Layout(dp=4, ep=2, accum=3))


def line(exit: Exit, verdict: str = "failed") -> CellLine:
    return CellLine(cell=verdict, verdict=verdict, exit=int(exit))


def judged(store: DirectoryStore, path: Path, against: str = "approved") -> CellLine:
    ((found,), _) = judge_locally(store, [Recorded(cell=CELL, line=4, path=path)], against=against)
    return found


def test_a_folder_judges_as_diff_does(files: Files, tmp_path: Path) -> None:
    store = DirectoryStore(tmp_path / "goldens")
    store.put_golden(files.golden)
    store.approve("toy.float32", 1, who="ada", why="measured")

    healthy, doubled = judged(store, files.healthy), judged(store, files.doubled, against="v1")

    assert (healthy.verdict, healthy.exit, healthy.law, healthy.line) == ("agree", 0, "", 4)
    assert (doubled.verdict, doubled.exit, doubled.law) == ("diverge", 1, "w[r,m] = ep")
    assert (healthy.golden, doubled.golden) == ("golden:toy.float32@approved", "golden:toy.float32@v1")
    assert doubled.assay is not None
    assert doubled.sentence == doubled.assay["sentence"]


def test_without_a_golden_the_line_says_how_to_make_one(files: Files, tmp_path: Path) -> None:
    store = DirectoryStore(tmp_path / "goldens")
    none = judged(store, files.healthy)
    store.put_golden(files.golden)
    proposed = judged(store, files.healthy)

    for lacking in (none, proposed):
        assert (lacking.verdict, lacking.exit) == ("failed", 3)
        assert "no version is approved" in lacking.error
        assert lacking.hint.splitlines() == [
            f"gradassay golden build toys:toy --dtype float32 --store {store}",
            f"gradassay golden approve toy.float32 VERSION --reason WHY --store {store}",
        ]
    assert judged(store, files.healthy, against="v7").exit == 2


def test_a_record_of_another_dtype_is_not_judged_by_it(
    files: Files, tmp_path: Path, make_record: Callable[..., Record]
) -> None:
    store = DirectoryStore(tmp_path / "goldens")
    store.put_golden(files.golden)
    store.approve("toy.float32", 1, who="ada", why="measured")
    make_record(dtype="bfloat16").write(tmp_path / "bfloat16.safetensors")
    found = judged(store, tmp_path / "bfloat16.safetensors")
    assert (found.exit, found.hint.count("toy.bfloat16")) == (3, 1)


def test_a_cell_that_failed_keeps_its_reason(tmp_path: Path) -> None:
    error = CellFailed("rank 1: died", hint="Traceback")
    ((found,), _) = judge_locally(
        DirectoryStore(tmp_path), [Recorded(cell=CELL, line=2, error=error)], against="approved"
    )
    assert (found.exit, found.error, found.hint, found.line) == (4, "rank 1: died", "Traceback", 2)


@pytest.mark.parametrize(
    ("exits", "gravest"),
    [
        ([Exit.AGREE, Exit.AGREE], Exit.AGREE),
        ([Exit.AGREE, Exit.INCONCLUSIVE, Exit.INCOMPARABLE], Exit.INCOMPARABLE),
        ([Exit.INCOMPLETE, Exit.NO_GOLDEN], Exit.NO_GOLDEN),
        ([Exit.NO_GOLDEN, Exit.UNREACHABLE, Exit.INCOMPLETE], Exit.UNREACHABLE),
        ([Exit.UNAUTHORISED, Exit.DIVERGE, Exit.SERVICE], Exit.DIVERGE),
    ],
)
def test_the_gravest_line_decides(exits: list[Exit], gravest: Exit) -> None:
    result = result_of("m.toml", [line(exit, exit.name) for exit in exits], notes=("a", "a", "b"))
    assert (result.exit, result.verdict, result.notes) == (gravest, gravest.name, ("a", "b"))


def test_a_job_that_ends_early_has_a_line_where_one_is_to_blame() -> None:
    with_line = failed_job("m.toml", InvalidFile("m.toml:3: wrong", hint="right", line=3))
    without = failed_job("m.toml", InvalidFile("m.toml: not there", hint="give one"))

    assert [(found.line, found.error, found.hint) for found in with_line.lines] == [(3, "m.toml:3: wrong", "right")]
    assert (without.lines, without.notes) == ((), ("m.toml: not there", "give one"))
    assert (with_line.exit, without.exit) == (2, 2)


def test_the_matrix_is_named_by_its_path_in_the_repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "repository" / ".git").mkdir(parents=True)
    (tmp_path / "repository" / "tests").mkdir()
    monkeypatch.chdir(tmp_path / "repository" / "tests")
    assert shown_path(Path("matrix.toml")) == "tests/matrix.toml"
    monkeypatch.chdir(tmp_path)
    assert shown_path(Path("matrix.toml")) == "matrix.toml"
