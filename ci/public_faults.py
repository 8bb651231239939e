"""Runs every public report of ci/public_faults.toml, assays the records, and writes docs/faults.md.

1. python ci/public_faults.py
2. python ci/public_faults.py --only nanogpt-30 torchtitan-1733 --table t.md    some reports
3. python ci/public_faults.py --goldens DIR                                     keep goldens here, and take those that are
Exit code 0 where every report was detected and named with its law and every control agreed, else 1. Releases that are not
in the zoo are installed first.
"""

from __future__ import annotations

import argparse
import re
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from faulty.finding import Judgement, judged
from faulty.table import How, Report, Trial, load_reports

from gradassay.goldens.assay.compare import assay_record
from gradassay.goldens.faults import Fault, load_catalogue
from gradassay.goldens.golden import Golden, read_golden
from gradassay.goldens.record import read_record
from gradassay.harness.build import build_golden
from gradassay.harness.environments import Environment
from gradassay.harness.launch import Pool, Task
from gradassay.harness.launch.outcome import RUN_RANK
from gradassay.harness.matrix import golden_matrix
from gradassay.harness.zoo import ensure

CI = Path(__file__).resolve().parent
DEADLINE_S = 300.0
_LONGEST_LAW = 100

_HEAD = """# Public faults

What `make public-faults` came to: each public report of `gradassay faults list` was run on gloo ranks, its record assayed
against a golden of the problem, and the same without the fault beside it. **Run on**: `release`, the releases named,
unpatched, beside fixed ones; `script`, the faulty line of user code in a training loop on today's torch (`ci/faulty/`),
beside the same loop with the line mended; `injected`, an injected fault of the same signature around FSDP2, beside FSDP2
without. **Detected**: the verdict was `diverge`. **Named**: the report is among those that the assay says it looks like.
`tests/frameworks/test_public_faults.py` asserts every row.{seconds}
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """What came of a trial; reason: why there is no judgement."""

    trial: Trial
    judgement: Judgement | None = None
    reason: str = ""

    @property
    def good(self) -> bool:
        """As the report says, or as a control should be."""
        return self.judgement is not None and self.judgement.good

    @property
    def complaint(self) -> str:
        """What is not."""
        return self.reason if self.judgement is None else "; ".join(self.judgement.complaints)


def surroundings(framework: str) -> Environment:
    """The environment of a release, installed where it is missing; ranks can import the scripts of ci/faulty."""
    own = CI / f"constraints-{framework.partition('==')[0]}.txt"
    found = ensure(framework, constraints=own if own.exists() else CI / "constraints.txt")
    return replace(found, paths=(*found.paths, CI))


def run(trials: Sequence[Trial], pool: Pool, goldens: Path, folder: Path) -> Iterator[Result]:
    """The results of trials, in the order in which they end. goldens: their folder; one that is missing is built."""
    for problem, dtype in dict.fromkeys((trial.cell.problem, trial.cell.dtype) for trial in trials):
        _build(problem, dtype, goldens, pool)
    by_cell: dict[str, list[Trial]] = {}
    for trial in sorted(trials, key=lambda trial: trial.cell.framework):
        by_cell.setdefault(str(trial.cell), []).append(trial)
    tasks = [
        Task(
            cell=first.cell,
            out=folder / f"{number}.safetensors",
            function=first.report.rank_function,
            deadline_s=DEADLINE_S,
        )
        for number, (first, *_) in enumerate(by_cell.values())
    ]
    for outcome in pool.run(tasks):
        for trial in by_cell[str(outcome.cell)]:
            if outcome.failure is not None:
                yield Result(trial=trial, reason=f"rank {outcome.failure.rank}: {outcome.failure.reason}")
            else:
                golden = read(_golden(goldens, trial.cell.problem, trial.cell.dtype))
                yield Result(trial=trial, judgement=judged(trial, assay_record(read_record(outcome.require()), golden)))


def _golden(goldens: Path, problem: str, dtype: str) -> Path:
    return goldens / f"{problem}.{dtype}.safetensors"


def _build(problem: str, dtype: str, goldens: Path, pool: Pool) -> None:
    path = _golden(goldens, problem, dtype)
    if path.exists():
        return
    print(f"golden {problem}.{dtype}", file=sys.stderr)
    with tempfile.TemporaryDirectory(prefix="gradassay-references-") as folder:
        golden = build_golden(problem, dtype, golden_matrix(problem, dtype).cells, pool=pool, folder=Path(folder))
    goldens.mkdir(parents=True, exist_ok=True)
    golden.write(path)


@cache
def read(path: Path) -> Golden:
    """The golden of a file, read once."""
    return read_golden(path)


def page(results: Sequence[Result], *, seconds: str = "") -> str:
    """The page: the table, what was run how, and every trial that went wrong."""
    rows = ["| report | framework, releases | run on | parameters | law found | detected | named | control |"]
    rows.append("| --- | --- | --- | --- | --- | --- | --- | --- |")
    faults = {fault.id: fault for fault in load_catalogue()}
    for report in dict.fromkeys(result.trial.report.fault for result in results):
        own = [result for result in results if result.trial.report.fault == report]
        rows += [
            _row(faults[report], kind, [result for result in own if result.trial.report is kind])
            for kind in _reports(own)
        ]
    good = sum(result.good for result in results)
    wrong = [f"- {result.trial}: {result.complaint}" for result in results if not result.good]
    parts = [_HEAD.format(seconds=seconds), "\n".join(rows), _cells(results)]
    parts.append((CI / "faulty" / "live.md").read_text(encoding="utf-8"))
    parts.append("\n".join([f"{good} of {len(results)} trials are as they should be.", *wrong]))
    return "\n\n".join(part.strip() for part in parts) + "\n"


def _reports(results: Sequence[Result]) -> list[Report]:
    found: list[Report] = []
    for result in results:
        if not any(result.trial.report is other for other in found):
            found.append(result.trial.report)
    return found


def _row(fault: Fault, report: Report, results: Sequence[Result]) -> str:
    broken = [result for result in results if not result.trial.control]
    controls = [result for result in results if result.trial.control]
    found = [result.judgement for result in broken if result.judgement is not None]
    laws = dict.fromkeys("; ".join(f"`{law}`" for law in _short(judgement.laws)) for judgement in found)
    families = dict.fromkeys(", ".join(judgement.families) for judgement in found)
    return " | ".join(
        (
            f"| **{fault.id}**: {fault.title}",
            _releases(fault),
            _on(report),
            " or ".join(families),
            " or ".join(laws),
            _share(sum(judgement.detected for judgement in found), len(broken)),
            _share(sum(judgement.named for judgement in found), len(broken)),
            _share(sum(result.good for result in controls), len(controls), "agrees", "diverges") + " |",
        )
    )


def _short(laws: Sequence[str]) -> list[str]:
    """The laws of one assay, each cut to a readable length; those that differ in a measured residual alone are one."""
    same = dict.fromkeys(re.sub(r"0\.00[0-9]+ of the gradient", "some of the gradient", law) for law in laws)
    return [law if len(law) <= _LONGEST_LAW else f"{law[:_LONGEST_LAW]}…" for law in same]


def _share(count: int, total: int, yes: str = "yes", no: str = "no") -> str:
    if count in (0, total):
        return "none" if not total else yes if count else f"**{no}**"
    return f"**{count} of {total}**"


def _releases(fault: Fault) -> str:
    parts = [f"broken {fault.broken}" if fault.broken else "", f"fixed {fault.fixed}" if fault.fixed else ""]
    return "; ".join(part for part in (fault.framework, *parts) if part)


def _on(report: Report) -> str:
    if report.how is How.RELEASE:
        beside = ", ".join(report.fixed) or f"the same in `{report.sound_layout}`"
        what = f"release: {', '.join(report.releases)}, beside {beside}"
    elif report.how is How.SCRIPT:
        what = f"script: {_file(report)}"
    else:
        what = f"injected: `{report.inject}`"
    return f"{what}; {report.why}" if report.why else what


def _cells(results: Sequence[Result]) -> str:
    faults = {fault.id: fault for fault in load_catalogue()}
    lines = ["## Reports and cells", "", "| report | reported as | problem | strategy | layout | dtype | options |"]
    lines.append("| --- | --- | --- | --- | --- | --- | --- |")
    for report in _reports(results):
        options = {
            **report.options,
            **({"stages": ", ".join(report.stages)} if report.stages != ("reduced",) else {}),
            **({"learning_rate": f"{report.learning_rate:g}"} if report.learning_rate else {}),
            **({"max_norm": f"{report.max_norm:g}"} if report.max_norm else {}),
        }
        said = ", ".join(f"`{key}={value}`" for key, value in options.items())
        runs = report.strategy if report.function == RUN_RANK and report.strategy else _file(report)
        lines.append(
            f"| {report.fault} | {faults[report.fault].report} | {report.problem} | {runs} | `{report.layout}` | "
            f"{report.dtype} | {said} |"
        )
    return "\n".join(lines)


def _file(report: Report) -> str:
    module = report.rank_function.partition(":")[0].removeprefix("faulty.")
    return f"[{module}](../ci/faulty/{module}.py)"


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the reports and writes the page; 0 where all went well."""
    parser = argparse.ArgumentParser(description="run every public report")
    parser.add_argument("--table", type=Path, default=CI.parent / "docs/faults.md")
    parser.add_argument("--goldens", type=Path, help="folder of goldens to take or to build")
    parser.add_argument("--only", nargs="+", default=[], help="these reports alone")
    given = parser.parse_args(arguments)
    began = time.monotonic()
    reports = [report for report in load_reports() if not given.only or report.fault in given.only]
    trials = [trial for report in reports for trial in report.trials()]
    done: dict[str, Result] = {}
    with (
        tempfile.TemporaryDirectory(prefix="gradassay-faults-") as folder,
        Pool(environments=surroundings) as pool,
    ):
        for result in run(trials, pool, given.goldens or Path(folder), Path(folder)):
            done[str(result.trial)] = result
            said = "as it should be" if result.good else result.complaint
            print(f"{len(done)}/{len(trials)} {result.trial}: {said}", file=sys.stderr, flush=True)
    seconds = f" {len(trials)} trials in {time.monotonic() - began:.0f} s."
    results = [done[str(trial)] for trial in trials]
    given.table.write_text(page(results, seconds=seconds), encoding="utf-8")
    return 0 if all(result.good for result in results) else 1


if __name__ == "__main__":
    raise SystemExit(main())
