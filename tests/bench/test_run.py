from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from bench.goals import GOALS, Goal
from bench.page import NOT_MEASURED, missed, page, row

from bench import run

CELLS = {"cells": 24, "compared": 9, "pool_s": 11.0}


def matrices(ratio: float) -> dict[str, Any]:
    return {"machine": {"cores": "2"}, "date": "2026-01-01", "seconds": 80.0, "matrices": [{**CELLS, "ratio": ratio}]}


def goal(part: str) -> Goal:
    (found,) = (goal for goal in GOALS if part in goal.title)
    return found


def test_what_meets_its_goal_says_so() -> None:
    assert row(goal("24 cells"), matrices(31.5))[1:] == (">= 20 x", "31.5 x (9 compared)", "yes")
    assert not missed({"matrix": matrices(31.5)})


def test_what_misses_its_goal_says_so() -> None:
    assert row(goal("24 cells"), matrices(7.0))[3] == "**missed**"
    assert missed({"matrix": matrices(7.0)}) == [f"{goal('24 cells').title}: 7 x (9 compared), goal >= 20 x"]
    assert "| 7 x (9 compared) | **missed** |" in page({"matrix": matrices(7.0)}, "")


def test_no_number_is_no_pass() -> None:
    assert row(goal("24 cells"), matrices(float("nan")))[3] == "**missed**"


def test_the_worst_case_counts() -> None:
    cases = [
        {"problem": "moe-small", "ranks": ranks, "ratio": ratio, "added_share": 0.002}
        for ranks, ratio in ((1, 1.01), (2, 1.2))
    ]
    assert row(goal("Captured"), {"steps": cases})[1:] == ("<= 1.05 x", "1.2 x (moe-small, 2 ranks)", "**missed**")
    assert row(goal("capture adds"), {"steps": cases})[2:] == ("0.2 % (moe-small, 1 ranks)", "yes")


@pytest.mark.parametrize("goal", GOALS, ids=lambda goal: goal.title)
@pytest.mark.parametrize(
    "result", [None, {}, {"cases": []}, {"steps": None}, {"matrices": [{"cells": 3, "ratio": 90.0}]}]
)
def test_what_is_not_there_is_not_measured(goal: Goal, result: dict[str, Any] | None) -> None:
    assert row(goal, result)[2:] == ("", NOT_MEASURED)


def test_page_without_results_claims_nothing() -> None:
    text = page({}, "## What limits it\n\nNothing yet.")
    assert "yes" not in text.partition("## What limits it")[0]
    assert text.count(f"| {NOT_MEASURED} |") == len(GOALS)
    assert "## What limits it\n\nNothing yet.\n\n## " in text


def test_page_shows_cases_and_machine() -> None:
    text = page({"matrix": matrices(31.5)}, "")
    assert text.startswith("# Performance\n")
    assert "cores 2; measured 2026-01-01; in 80 s\n" in text
    assert "| cells | compared | pool, s | ratio |\n| ---: | ---: | ---: | ---: |\n| 24 | 9 | 11 | 31.5 |\n" in text


def test_page_is_written_from_what_was_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    results = tmp_path / "build"
    results.mkdir()
    (results / "matrix.json").write_text(json.dumps(matrices(7.0)))
    for name, path in {"ROOT": tmp_path, "RESULTS": results, "PAGE": tmp_path / "performance.md"}.items():
        monkeypatch.setattr(run, name, path)
    assert run.main(["--page"]) == 1
    text = (tmp_path / "performance.md").read_text()
    assert "| 7 x (9 compared) | **missed** |" in text
    assert "## What was tried and what limits it" in text


def test_a_benchmark_that_fails_leaves_no_result(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    results = tmp_path / "build"
    results.mkdir()
    (results / "matrix.json").write_text(json.dumps(matrices(31.5)))
    failing = run.Benchmark(arguments=("-c", "raise SystemExit(3)"))
    monkeypatch.setattr(run, "BENCHMARKS", {"matrix": failing})
    for name, path in {"ROOT": tmp_path, "RESULTS": results, "PAGE": tmp_path / "performance.md"}.items():
        monkeypatch.setattr(run, name, path)
    assert run.main([]) == 1
    assert not (results / "matrix.json").exists()
    assert "yes" not in (tmp_path / "performance.md").read_text()


def test_lines_of_a_benchmark_become_cases(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    printing = run.Benchmark(
        arguments=("-c", "print('warming up'); print('{\"clients\": 1}'); print('{\"clients\": 8}')"), quick=()
    )
    monkeypatch.setattr(run, "BENCHMARKS", {"self_assay": printing})
    for name, path in {"ROOT": tmp_path, "RESULTS": tmp_path / "build", "PAGE": tmp_path / "performance.md"}.items():
        monkeypatch.setattr(run, name, path)
    assert run.main(["--quick"]) == 0
    kept = json.loads((tmp_path / "build/quick/self_assay.json").read_text())
    assert kept["cases"] == [{"clients": 1}, {"clients": 8}]
    assert kept["quick"] is True
    assert "none of these figures means anything" in (tmp_path / "build/quick/performance.md").read_text()
    assert not (tmp_path / "performance.md").exists()
