"""`make soak`: what it plans, how it goes on where it was, what its page says, and that an alarm fails it."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
import soak
import soak_plan
from soak_page import Summary, page
from soak_plan import CONTROL_EVERY, DTYPES, PROBLEMS, Run, plan, settings
from soak_results import Result, Results

from gradassay.goldens.container import digest_of_file
from gradassay.goldens.golden import Golden
from gradassay.goldens.layout import Layout
from gradassay.harness.cell import Cell
from gradassay.harness.launch import Failure, Outcome, Pool
from gradassay.harness.problems import load_problem
from gradassay.harness.worker import check_cell
from quick_golden import quick_golden

TORCH = "2.12.0"


@pytest.mark.parametrize("torch", ["", TORCH])
def test_the_plan_repeats_every_layout_of_every_golden_ten_times(torch: str) -> None:
    honest = [run for run in plan(torch) if not run.cell.fault]
    assert len({run.key for run in honest}) == len(honest)
    counts = Counter((run.cell.problem, run.cell.dtype, str(run.cell.layout)) for run in honest)
    assert set(counts.values()) == {10}
    layouts = Counter((problem, dtype) for problem, dtype, _ in counts)
    assert set(layouts) == {(problem, dtype) for problem in PROBLEMS for dtype in DTYPES}
    assert min(layouts.values()) >= 30
    per_setting = Counter(run.setting.name for run in honest)
    assert len(per_setting) == 10
    assert len(set(per_setting.values())) == 1


def test_every_cell_of_the_plan_can_run() -> None:
    for run in plan(TORCH):
        assert check_cell(run.cell).layout == run.cell.layout


def test_experts_are_spread_over_several_numbers_of_ranks() -> None:
    runs = plan("")
    assert {run.cell.layout.ep for run in runs if run.cell.problem == "moe-tiny"} == {1, 2, 3, 4, 6}
    assert {run.cell.layout.ep for run in runs if run.cell.problem != "moe-tiny"} == {1}
    assert {run.cell.layout.dp for run in runs} == {1, 2, 3, 4, 5, 6, 7, 8}


def test_a_share_has_every_difference_there_is() -> None:
    every, share = plan(TORCH), plan(TORCH, Fraction(1, 20))
    assert [run.key for run in share] == [run.key for run in every[: len(share)]]
    assert sum(not run.cell.fault for run in share) == 96
    for what in (
        lambda run: (run.cell.problem, run.cell.dtype, run.setting.name),
        lambda run: run.cell.layout.dp,
        lambda run: (run.cell.layout.replicate > 1, str(run.cell.options)),
    ):
        assert {what(run) for run in share} == {what(run) for run in every}


def test_a_share_holds_negative_controls() -> None:
    faults = [run for run in plan("", Fraction(1, 20)) if run.cell.fault]
    assert len(faults) == 96 // CONTROL_EVERY
    assert len({run.cell.fault.partition(":")[0] for run in faults}) >= 4


def test_every_setting_is_something_that_a_record_says() -> None:
    for setting in settings(TORCH):
        assert setting.says
        assert soak.unsaid(setting, {**setting.says, "backend": "gloo"}) == []
        for key in setting.says:
            hidden = {**setting.says, key: "something else"}
            assert soak.unsaid(setting, hidden) == [f"{key} is something else, not {setting.says[key]}"]
    assert soak.unsaid(settings(TORCH)[8], {"threads": 1, "torch": f"{TORCH}+cu130"}) == []
    assert soak.unsaid(settings(TORCH)[8], {}) == [f"torch is missing, not {TORCH}"]


def test_what_ranks_switch_is_the_plans_own_variable() -> None:
    soak_rank = pytest.importorskip("soak_rank")
    assert soak_rank.SWITCHES == soak_plan.SWITCHES


def _result(key: str = "cell | as it is", **changed: Any) -> Result:
    given = {
        "problem": "toy",
        "dtype": "float32",
        "strategy": "ddp",
        "layout": "dp2",
        "setting": "as it is",
        "golden": "sha256:a",
        "verdict": "agree",
        "ratios": {"dense": [0.25, 0.5], "norm": [0.125]},
        "gradient": "1234",
        "seconds": 1.5,
    }
    return Result(key=key, **{**given, **changed})


def test_results_are_read_back_after_a_line_was_cut_short(tmp_path: Path) -> None:
    results = Results(tmp_path / "results.jsonl", Result)
    assert results.read({"sha256:a"}) == {}
    results.add(one := _result("one"))
    whole = results.path.read_bytes()
    results.path.write_bytes(whole + whole[:40])
    results.add(two := _result("two", verdict="diverge", reason="because", unsaid=["threads is 1, not 2"]))
    assert results.read({"sha256:a"}) == {"one": one, "two": two}
    results.forget()
    assert results.read({"sha256:a"}) == {}


def test_what_failed_or_was_judged_by_another_golden_is_run_again(tmp_path: Path) -> None:
    results = Results(tmp_path / "results.jsonl", Result)
    results.add(_result("old", golden="sha256:b"))
    results.add(_result("failed", verdict="", reason="rank 1: no"))
    results.add(again := _result("again", verdict="diverge"))
    assert results.read({"sha256:a"}) == {"again": again}


@pytest.mark.parametrize(
    ("changed", "wrong"),
    [
        ({}, False),
        ({"verdict": "diverge"}, True),
        ({"verdict": "inconclusive"}, True),
        ({"verdict": ""}, True),
        ({"unsaid": ["mkldnn is True, not False"]}, True),
        ({"fault": "sign:all", "verdict": "diverge"}, False),
        ({"fault": "sign:all"}, True),
        ({"fault": "sign:all", "verdict": "inconclusive"}, True),
    ],
)
def test_what_is_wrong(changed: dict[str, Any], wrong: bool) -> None:
    assert _result(**changed).wrong is wrong


def test_the_page_holds_counts_margins_and_what_was_wrong() -> None:
    alarm = _result("bad | 2 threads", setting="2 threads", verdict="diverge", reason="3 of 4 differ", gradient="5678")
    missed = _result("ill | as it is", fault="sign:all")
    seen = _result("broken | as it is", fault="sign:all", verdict="diverge")
    text = page(Summary(results=(_result(), alarm, missed, seen), whole=80, share=Fraction(1, 20), torch=TORCH))
    assert "1 false alarms in 2 honest runs; 1 of 2 injected faults diverge; 0 runs failed" in text
    assert "4 of the 80 runs" in text
    assert f"python ci/soak.py --share 1/20 --torch {TORCH}" in text
    assert "| toy, float32 | 2 | 1 | 1 | 0.500 |" in text
    assert "| 2 threads | 1 | 1 | 0 | 0.500 |" in text
    assert "2 runs share problem, dtype and layout with another one; their gradients have 2 different values" in text
    assert "| float32 | all | 6 | 0.250 | 0.500 | 0.500 |" in text
    assert "| float32 | norm | 2 | 0.125 | 0.125 | 0.125 |" in text
    assert "| `sign:all` | 2 | 1 |" in text
    assert "- bad | 2 threads: diverge; 3 of 4 differ" in text
    assert "- ill | as it is: agree; the fault was not seen" in text
    assert "- broken" not in text


def test_a_page_without_wrongs_has_no_list_of_them() -> None:
    text = page(
        Summary(results=(_result(),), whole=1, share=Fraction(1), without="torch 9 could not be installed (none)")
    )
    assert "What was wrong" not in text
    assert "torch 9 could not be installed (none)." in text
    assert "0 false alarms in 1 honest runs" in text


@pytest.fixture
def quick(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, make_golden: Callable[..., Golden]
) -> Callable[[str], list[str]]:
    """Makes `soak.main` judge without running: every honest run by the verdict; returns the keys that it asked for."""
    golden = tmp_path / "golden"
    make_golden().write(golden)
    digest = digest_of_file(golden)
    monkeypatch.setattr(soak, "kept_golden", lambda *_: golden)

    def judging(verdict: str) -> list[str]:
        asked: list[str] = []

        def run(runs: list[Run], *_: object) -> Iterator[Result]:
            for one in runs:
                asked.append(one.key)
                own = "diverge" if one.cell.fault else verdict
                yield _result(one.key, golden=digest, fault=one.cell.fault, verdict=own)

        monkeypatch.setattr(soak, "run", run)
        return asked

    return judging


def _main(folder: Path) -> int:
    return soak.main(["--share", "1/100", "--folder", str(folder), "--page", str(folder / "page.md")])


@pytest.mark.parametrize(("verdict", "code"), [("agree", 0), ("diverge", 1)])
def test_an_alarm_makes_the_exit_code_1(
    quick: Callable[[str], list[str]], tmp_path: Path, verdict: str, code: int
) -> None:
    quick(verdict)
    assert _main(tmp_path) == code
    assert f"{20 * code} false alarms in 20 honest runs" in (tmp_path / "page.md").read_text()


def test_a_soak_goes_on_where_it_was(quick: Callable[[str], list[str]], tmp_path: Path) -> None:
    asked = quick("agree")
    assert _main(tmp_path) == 0
    keys = [run.key for run in plan("", Fraction(1, 100))]
    assert asked == keys
    lines = (tmp_path / "results.jsonl").read_text().splitlines()
    (tmp_path / "results.jsonl").write_text("\n".join(lines[:5]) + "\n" + lines[5][:30])
    asked.clear()
    assert _main(tmp_path) == 0
    assert asked == keys[5:]
    assert {json.loads(line)["key"] for line in lines} == set(keys)
    asked.clear()
    assert _main(tmp_path) == 0
    assert asked == []


def test_a_torch_that_cannot_be_installed_is_said(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    target, reason = soak.other_torch("0.0.1", tmp_path)
    assert "torch==0.0.1" in reason
    assert not target.exists()
    assert list(tmp_path.iterdir()) == []


def test_a_run_that_fails_is_no_agreement(make_golden: Callable[..., Golden]) -> None:
    run = Run(cell=Cell(problem="dense-tiny", strategy="ddp", layout=Layout(dp=2)), setting=settings("")[0])
    outcome = Outcome(cell=run.cell, seconds=1.0, failure=Failure(rank=1, reason="ValueError: no"))
    result = soak.judged(run, outcome, make_golden(), "sha256:a")
    assert (result.verdict, result.reason, result.wrong) == ("", "rank 1: ValueError: no", True)


@pytest.mark.parametrize(("name", "builds"), [("dense-tiny", 0), ("moe-tiny", 1)])
def test_a_golden_is_built_once_for_a_revision_of_its_problem(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, make_golden: Callable[..., Golden], name: str, builds: int
) -> None:
    built: list[Path] = []

    def build_in(folder: Path, *_: object, **__: object) -> None:
        built.append(folder)
        _golden_of(name, make_golden()).write(folder / "golden")

    monkeypatch.setattr(soak, "build_in", build_in)
    kept = tmp_path / f"{name}.float32"
    kept.mkdir()
    _golden_of("dense-tiny", make_golden()).write(kept / "golden")
    with Pool() as pool:
        for _ in range(2):
            assert soak.kept_golden(name, "float32", tmp_path, pool) == kept / "golden"
    assert len(built) == builds
    assert list(tmp_path.iterdir()) == [kept]


def _golden_of(name: str, golden: Golden) -> Golden:
    problem = replace(golden.header.problem, digest=load_problem(name).digest)
    return replace(golden, header=replace(golden.header, problem=problem))


@pytest.mark.dist
def test_honest_runs_agree_and_an_injected_fault_does_not(tmp_path: Path) -> None:
    golden = tmp_path / "golden"
    quick_golden("dense-tiny", units=4).write(golden)
    setting = settings("")[6]
    cell = Cell(problem="dense-tiny", strategy="ddp", layout=Layout(dp=2, accum=2), options={"bucket_cap_mb": "0.01"})
    runs = [
        Run(cell=cell, setting=setting),
        Run(cell=replace(cell, strategy="fsdp2", options={"sync": "every"}), setting=setting),
        Run(cell=replace(cell, fault="uniform:all:scale=1.05"), setting=setting),
    ]
    with Pool(environments=soak.surroundings(settings(""), tmp_path)) as pool:
        found = {r.key: r for r in soak.run(runs, {("dense-tiny", "float32"): golden}, tmp_path / "records", pool)}
    assert [found[run.key].verdict for run in runs] == ["agree", "agree", "diverge"]
    assert [found[run.key].line for run in runs if found[run.key].wrong] == []
    assert all(0 < ratio < 1 for ratios in found[runs[0].key].ratios.values() for ratio in ratios)
    assert list((tmp_path / "records").iterdir()) == []
