"""Injects every fault around every strategy, assays the records, and writes the table of docs/injected-faults.md.

1. python ci/faults_table.py
2. python ci/faults_table.py --every                                  every family on every strategy: three times as long
3. python ci/faults_table.py --only geometric unreduced --table t.md  some faults
Exit code 0 where every fault was detected and named and every control agreed, else 1. Needs `make zoo`.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
import tomllib
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from dataclasses import dataclass, replace
from functools import cache
from itertools import groupby
from multiprocessing import get_context
from pathlib import Path

from gradassay.goldens.assay.compare import assay_record
from gradassay.goldens.assay.result import Verdict
from gradassay.goldens.errors import UsageError
from gradassay.goldens.golden import Golden, read_golden
from gradassay.goldens.layout import Layout
from gradassay.goldens.record import read_record
from gradassay.harness.build import build_golden
from gradassay.harness.cell import Cell
from gradassay.harness.faults import REPORTS, Judgement, Site, injectable, judge, parse_fault, with_step_before
from gradassay.harness.launch import Pool, Task
from gradassay.harness.matrix import golden_matrix
from gradassay.harness.problems import load_problem

ROOT = Path(__file__).parent.parent
MOE, RAGGED = "moe-tiny", "ragged-tiny"
LAYOUTS: Mapping[str, str] = {
    "ddp": "dp4.ep2.accum3",
    "fsdp2": "dp4.ep2.accum3",
    "hsdp": "dp4.ep2.replicate2.accum3",
    "zero1": "dp4.ep2.accum3",
    "deepspeed-zero0": "dp4.ep2.accum3",
    "deepspeed-zero1": "dp4.ep2.accum3",
    "deepspeed-zero2": "dp4.ep2.accum3",
    "deepspeed-zero3": "dp4.accum3",
    "single": "accum3",
}
"""Strategy -> the layout in which faults are injected around it; without ep for a problem without experts."""

EVERY_FAMILY = ("ddp", "fsdp2")
LOW_PRECISION = ("ddp", "fsdp2", "deepspeed-zero2")
DEADLINE_S = 300.0
_AHEAD = 3
_LONGEST_LAW = 100

_HEAD = """# Injected faults

What `make faults` came to: each fault of `gradassay faults list` was injected around real runs of every strategy that it
applies to, on gloo ranks, and the records were assayed against a golden of the problem. **Detected**: the verdict was
`diverge`. **Named**: pattern, formula (or a tie that the report lists), weights and parameters are those that were
injected, and nothing else was found. Laws of other parameters in one record are separated by `;`, those that strategies
differ in by "or". Layouts: {layouts}. DeepSpeed is {deepspeed}.{seconds}
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """One cell and what its assay came to. table: the heading that it belongs to. reason: why there is no judgement."""

    table: str
    cell: Cell
    judgement: Judgement | None = None
    reason: str = ""

    @property
    def good(self) -> bool:
        """Whether the fault was named, or the control agrees."""
        found = self.judgement
        return found is not None and (found.named if self.cell.fault else not found.detected)


def planned(*, every: bool, only: Sequence[str]) -> tuple[list[Trial], dict[tuple[str, str], list[str]]]:
    """The trials, and the strategies that a fault does not apply to, by fault and reason."""
    found: list[Trial] = []
    refused: dict[tuple[str, str], list[str]] = defaultdict(list)

    def consider(table: str, problem: str, strategy: str, fault: str, dtype: str = "float32") -> bool:
        cell = _cell(problem, strategy, fault, dtype)
        if fault:
            try:
                parse_fault(fault).check(_site(cell))
            except UsageError as error:
                if table == "moe-tiny, float32" and fault.count(":") == 0:
                    refused[fault, error.hint].append(strategy)
                return False
        found.append(Trial(table=table, cell=cell))
        return True

    kinds = [kind.name for kind in injectable() if not only or kind.name in only]
    for strategy in LAYOUTS:
        families = _families(MOE) if every or strategy in EVERY_FAMILY else ("expert",)
        consider("Controls", MOE, strategy, "")
        for name in kinds:
            for text in (name, *(f"{name}:{family}" for family in families)):
                _tried(consider, "moe-tiny, float32", MOE, strategy, text)
    for strategy in LAYOUTS:
        consider("Controls", RAGGED, strategy, "")
        for text in ("token-weighting", *(f"token-weighting:{family}" for family in _families(RAGGED))):
            if "token-weighting" in kinds:
                consider("ragged-tiny, float32", RAGGED, strategy, text)
    for strategy in LOW_PRECISION:
        consider("Controls", MOE, strategy, "", "bfloat16")
        for name in kinds:
            consider("moe-tiny, bfloat16", MOE, strategy, name, "bfloat16")
    for report in REPORTS:
        if not only or report in only:
            any(consider("Public reports", problem, "fsdp2", report) for problem in (MOE, RAGGED))
    return found, refused


def _tried(consider: Callable[..., bool], table: str, problem: str, strategy: str, text: str) -> None:
    try:
        parse_fault(text)
    except UsageError:
        return
    consider(table, problem, strategy, text)


def _families(problem: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(parameter.family for parameter in load_problem(problem).parameters))


def _cell(problem: str, strategy: str, fault: str, dtype: str) -> Cell:
    layout = Layout.parse(LAYOUTS[strategy])
    if load_problem(problem).experts == 0:
        layout = replace(layout, ep=1)
    framework = _deepspeed() if strategy.startswith("deepspeed") else ""
    return Cell(problem=problem, strategy=strategy, layout=layout, dtype=dtype, framework=framework, fault=fault)


@cache
def _deepspeed() -> str:
    """The newest release of the zoo."""
    with (ROOT / "ci/zoo.toml").open("rb") as file:
        return f"deepspeed=={tomllib.load(file)['deepspeed']['releases'][0]}"


def _site(cell: Cell) -> Site:
    return Site(problem=load_problem(cell.problem), layout=cell.layout, strategy=cell.strategy, dtype=cell.dtype)


def run(trials: Sequence[Trial], folder: Path, pool: Pool) -> Iterator[Trial]:
    """The trials with their judgements, in the order in which they end; goldens are built first."""
    goldens = {key: _golden(*key, folder, pool) for key in dict.fromkeys(map(_golden_of, trials))}
    by_cell = {str(trial.cell): trial for trial in trials}
    assert len(by_cell) == len(trials), "two trials of one cell"
    tasks = [
        Task(cell=trial.cell, out=folder / f"{number}.safetensors", deadline_s=DEADLINE_S)
        for number, trial in enumerate(trials)
    ]
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as executor:
        waiting: list[tuple[Trial, Future[Judgement]]] = []
        for outcome in pool.run(tasks):
            trial = by_cell[str(outcome.cell)]
            if outcome.failure is None:
                golden = goldens[_golden_of(trial)]
                waiting.append((trial, executor.submit(assess, outcome.require(), golden, trial.cell)))
            else:
                yield replace(trial, reason=f"rank {outcome.failure.rank}: {outcome.failure.reason}")
            while len(waiting) > _AHEAD:
                first, future = waiting.pop(0)
                yield replace(first, judgement=future.result())
        for first, future in waiting:
            yield replace(first, judgement=future.result())


def _golden_of(trial: Trial) -> tuple[str, str]:
    return trial.cell.problem, trial.cell.dtype


def _golden(problem: str, dtype: str, folder: Path, pool: Pool) -> Path:
    """The file of a golden that also holds the step before, which `stale` needs."""
    path = folder / f"{problem}.{dtype}.golden"
    print(f"golden {problem}.{dtype}", file=sys.stderr)
    golden = build_golden(problem, dtype, golden_matrix(problem, dtype).cells, pool=pool, folder=folder / "references")
    with_step_before(golden, load_problem(problem)).write(path)
    return path


@cache
def _read(path: Path) -> Golden:
    return read_golden(path)


def assess(record: Path, golden: Path, cell: Cell) -> Judgement:
    """The judgement of a record of `cell`; the record is removed. A control's is that of its verdict alone."""
    assay = assay_record(read_record(record), _read(golden))
    record.unlink()
    if cell.fault:
        return judge(parse_fault(cell.fault), assay, _read(golden), _site(cell))
    return Judgement(detected=assay.verdict is not Verdict.AGREE, named=False, laws=(assay.sentence,))


def page(trials: Sequence[Trial], refused: Mapping[tuple[str, str], list[str]], *, seconds: str = "") -> str:
    """The page: a table for every heading, what does not apply, and every trial that went wrong."""
    layouts = ", ".join(f"`{layout}`" for layout in dict.fromkeys(LAYOUTS.values()))
    parts = [_HEAD.format(layouts=layouts, deepspeed=_deepspeed().partition("==")[2], seconds=seconds)]
    for heading in dict.fromkeys(trial.table for trial in trials):
        own = [trial for trial in trials if trial.table == heading]
        parts.append(f"## {heading}\n\n{_controls(own) if heading == 'Controls' else _table(own)}")
    if refused:
        rows = (f"| `{fault}` | {hint} | {', '.join(names)} |" for (fault, hint), names in refused.items())
        parts.append(
            "## Where a fault does not apply\n\n| fault | why | strategies |\n| --- | --- | --- |\n" + "\n".join(rows)
        )
    good = sum(trial.good for trial in trials)
    wrong = [f"- {trial.cell}: {_complaint(trial)}" for trial in trials if not trial.good]
    parts.append("\n".join([f"{good} of {len(trials)} trials are as they should be.", *wrong]))
    return "\n\n".join(part.strip() for part in parts) + "\n"


def _controls(trials: Sequence[Trial]) -> str:
    lines = [
        "Without a fault, the same cells agree.",
        "",
        "| problem | dtype | strategies | agree |",
        "| --- | --- | --- | --- |",
    ]
    for (problem, dtype), group in groupby(trials, key=_golden_of):
        row = list(group)
        names = ", ".join(trial.cell.strategy for trial in row)
        lines.append(f"| {problem} | {dtype} | {names} | {sum(trial.good for trial in row)} of {len(row)} |")
    return "\n".join(lines)


def _table(trials: Sequence[Trial]) -> str:
    lines = ["| fault | family | strategies | detected | named | law found |", "| --- | --- | --- | --- | --- | --- |"]
    rows: dict[str, list[Trial]] = defaultdict(list)
    for trial in trials:
        rows[trial.cell.fault].append(trial)
    for text, row in rows.items():
        found = [trial.judgement for trial in row if trial.judgement is not None]
        laws = dict.fromkeys(_law(judgement) for judgement in found)
        lines.append(
            f"| `{text.partition(':')[0]}` | {parse_fault(text).family} | {', '.join(trial.cell.strategy for trial in row)} | "
            f"{sum(one.detected for one in found)} of {len(row)} | {sum(one.named for one in found)} of {len(row)} | "
            f"{' or '.join(laws)} |"
        )
    return "\n".join(lines)


def _law(judgement: Judgement) -> str:
    """The laws of one assay, largest first, each cut to a readable length."""
    cut = (law if len(law) <= _LONGEST_LAW else f"{law[:_LONGEST_LAW]}…" for law in judgement.laws)
    return "; ".join(f"`{law}`" for law in cut)


def _complaint(trial: Trial) -> str:
    if trial.judgement is None:
        return trial.reason
    return "; ".join(trial.judgement.complaints or trial.judgement.laws or ("the verdict was agree",))


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the trials and writes the page; 0 where all went well."""
    parser = argparse.ArgumentParser(description="inject every fault around every strategy")
    parser.add_argument("--table", type=Path, default=ROOT / "docs/injected-faults.md")
    parser.add_argument("--every", action="store_true", help="every family on every strategy")
    parser.add_argument("--only", nargs="+", default=[], help="these faults or reports alone")
    given = parser.parse_args(arguments)
    began = time.monotonic()
    trials, refused = planned(every=given.every, only=given.only)
    done: dict[str, Trial] = {}
    with tempfile.TemporaryDirectory(prefix="gradassay-faults-") as folder, Pool() as pool:
        for trial in run(trials, Path(folder), pool):
            done[str(trial.cell)] = trial
            if not trial.good or len(done) % 20 == 0:
                complaint = "" if trial.good else f": {_complaint(trial)}"
                print(f"{len(done)}/{len(trials)} {trial.cell}{complaint}", file=sys.stderr, flush=True)
    ordered = [done[str(trial.cell)] for trial in trials]
    given.table.write_text(page(ordered, refused, seconds=f" All of it took {time.monotonic() - began:.0f} s."))
    print(f"{sum(trial.good for trial in ordered)} of {len(ordered)} trials are as they should be: {given.table}")
    return 0 if all(trial.good for trial in ordered) else 1


if __name__ == "__main__":
    raise SystemExit(main())
