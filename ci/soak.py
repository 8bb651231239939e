"""Runs honest steps in ever other surroundings against goldens built once, counts alarms, and writes docs/soak.md.

1. python ci/soak.py                                   the whole plan; a soak that was ended goes on where it was
2. python ci/soak.py --share 1/20 --torch 2.12.0       a beginning of it, some of it with another torch
3. python ci/soak.py --fresh                           forgets what earlier soaks found
Exit code 0 where every honest run agrees, says in its record what was different, and every injected fault diverges; else 1.
Goldens, results and other releases of torch are kept in build/soak.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

from matrix_report import Lines
from soak_page import Summary, page
from soak_plan import DTYPES, PROBLEMS, Run, Setting, plan, settings
from soak_results import Result, Results

from gradassay.goldens.assay.compare import assay_record
from gradassay.goldens.container import digest_of_file
from gradassay.goldens.golden import Golden, read_golden
from gradassay.goldens.record import read_record
from gradassay.harness.build import build_in
from gradassay.harness.build.references import GOLDEN
from gradassay.harness.environments import Environment, environment
from gradassay.harness.launch import Outcome, Pool, Task
from gradassay.harness.problems import load_problem

CI = Path(__file__).resolve().parent
ROOT = CI.parent
STAGE = "reduced.1"
DEADLINE_S = 300.0
RANK = "soak_rank:run"


def kept_golden(problem: str, dtype: str, folder: Path, pool: Pool) -> Path:
    """The file of a golden below `folder`, built now where there is none of this revision of the problem."""
    own = folder / f"{problem}.{dtype}"
    path = own / GOLDEN
    if path.exists() and read_golden(path).header.problem.digest == load_problem(problem).digest:
        return path
    partial = folder / f".{own.name}.{os.getpid()}.partial"
    partial.mkdir(parents=True)
    try:
        build_in(partial, problem, dtype, pool=pool, progress=Lines())
        shutil.rmtree(own, ignore_errors=True)
        partial.rename(own)
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    return path


def other_torch(version: str, folder: Path) -> tuple[Path, str]:
    """The folder of a release of torch with all that it requires, installed now where it was not; and why it is not there."""
    target = folder / f"torch-{version}"
    if target.exists():
        return target, ""
    partial = folder / f".{target.name}.{os.getpid()}.partial"
    command = [sys.executable, "-m", "pip", "install", "--no-input", "--quiet", "--target", str(partial)]
    print(f"torch {version} into {target}: gigabytes, once", file=sys.stderr)
    done = subprocess.run(
        [*command, f"torch=={version}"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )
    if done.returncode:
        shutil.rmtree(partial, ignore_errors=True)
        return target, (done.stdout.strip().splitlines() or [f"pip exit {done.returncode}"])[-1]
    partial.rename(target)
    return target, ""


def surroundings(every: Sequence[Setting], torches: Path) -> Callable[[str], Environment]:
    """The environment of ranks by the name of a setting; a pool keeps a server for each."""
    by_name = {setting.name: setting for setting in every}

    def find(name: str) -> Environment:
        plain = environment("")
        if name not in by_name:
            return plain
        setting = by_name[name]
        paths = (torches / f"torch-{setting.torch}", CI) if setting.torch else (CI,)
        return replace(plain, paths=paths, variables={**plain.variables, **setting.variables})

    return find


def run(runs: Sequence[Run], goldens: Mapping[tuple[str, str], Path], folder: Path, pool: Pool) -> Iterator[Result]:
    """The result of every run, in the order in which they end; records stay in `folder` where something is wrong."""
    known = {key: (read_golden(path), digest_of_file(path)) for key, path in goldens.items()}
    by_key = {run.key: run for run in runs}
    tasks = [
        Task(
            cell=replace(run.cell, framework=run.setting.name),
            out=folder / f"{hashlib.sha256(run.key.encode()).hexdigest()[:16]}.safetensors",
            function=RANK,
            deadline_s=DEADLINE_S,
        )
        for run in runs
    ]
    for outcome in pool.run(tasks):
        name = outcome.cell.framework
        found = by_key[f"{replace(outcome.cell, framework='')} | {name}"]
        golden, digest = known[found.cell.problem, found.cell.dtype]
        result = judged(found, outcome, golden, digest)
        if outcome.path is not None and not result.wrong:
            outcome.path.unlink()
        yield result


def judged(run: Run, outcome: Outcome, golden: Golden, digest: str) -> Result:
    """What an ended run comes to beside its golden, whose file has this digest."""
    cell = run.cell
    result = Result(
        key=run.key,
        problem=cell.problem,
        dtype=cell.dtype,
        strategy=" ".join([cell.strategy, *(f"{key}={value}" for key, value in cell.options.items())]),
        layout=str(cell.layout),
        setting=run.setting.name,
        fault=cell.fault,
        golden=digest,
        seconds=outcome.seconds,
    )
    if outcome.path is None:
        assert outcome.failure is not None
        return replace(result, reason=f"rank {outcome.failure.rank}: {outcome.failure.reason}")
    record = read_record(outcome.path)
    assay = assay_record(record, golden)
    ratios: dict[str, list[float]] = {}
    for one in assay.parameters:
        if one.residual is not None and one.tolerance:
            ratios.setdefault(one.family, []).append(round(one.residual / one.tolerance, 4))
    return replace(
        result,
        verdict=assay.verdict.value,
        reason="" if assay.verdict.value == "agree" else assay.sentence,
        ratios=ratios,
        gradient=hashlib.sha256(record.captures[STAGE].sketch.tobytes()).hexdigest()[:16],
        unsaid=unsaid(run.setting, record.header.environment),
    )


def unsaid(setting: Setting, environment: Mapping[str, object]) -> list[str]:
    """What of the setting the record's environment does not say."""
    return [
        f"{key} is {environment.get(key, 'missing')}, not {value}"
        for key, value in setting.says.items()
        # A release may carry a local part, as in 2.13.0+cpu.
        if str(environment.get(key)).partition("+")[0] != str(value)
    ]


def main(arguments: Sequence[str] | None = None) -> int:
    """Goes on with the soak, and writes the page; 1 where anything was wrong."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("--share", type=Fraction, default=Fraction(1), help="how much of the plan, as in 1/20")
    parser.add_argument("--problem", action="append", choices=PROBLEMS, help="of the share, only these")
    parser.add_argument("--dtype", action="append", choices=DTYPES, help="of the share, only these")
    parser.add_argument("--torch", default="", metavar="VERSION", help="another release, for a fifth of the runs")
    parser.add_argument("--folder", type=Path, default=ROOT / "build/soak")
    parser.add_argument("--page", type=Path, default=ROOT / "docs/soak.md")
    parser.add_argument("--fresh", action="store_true", help="forget earlier results")
    given = parser.parse_args(arguments)
    given.folder.mkdir(parents=True, exist_ok=True)
    results = Results(given.folder / "results.jsonl", Result)
    if given.fresh:
        results.forget()
    reason = other_torch(given.torch, given.folder)[1] if given.torch else ""
    torch = "" if reason else given.torch
    problems, dtypes = given.problem or PROBLEMS, given.dtype or DTYPES
    runs = [one for one in plan(torch, given.share) if one.cell.problem in problems and one.cell.dtype in dtypes]
    with Pool(environments=surroundings(settings(torch), given.folder)) as pool:
        keys = dict.fromkeys((run.cell.problem, run.cell.dtype) for run in runs)
        goldens = {key: kept_golden(*key, given.folder / "goldens", pool) for key in keys}
        done = results.read({digest_of_file(path) for path in goldens.values()})
        left = [run for run in runs if run.key not in done]
        print(f"{len(runs)} runs, {len(runs) - len(left)} of them done before", file=sys.stderr)
        began = time.monotonic()
        for number, result in enumerate(run(left, goldens, given.folder / "records", pool), 1):
            results.add(result)
            done[result.key] = result
            if result.wrong or number % 20 == 0:
                print(
                    f"{number}/{len(left)} {time.monotonic() - began:.0f} s {result.line}", file=sys.stderr, flush=True
                )
    summary = Summary(
        results=tuple(done[run.key] for run in runs),
        whole=len(plan(torch)),
        share=given.share,
        torch=torch,
        only=tuple(f"--problem {one}" for one in given.problem or ())
        + tuple(f"--dtype {one}" for one in given.dtype or ()),
        without=f"torch {given.torch} could not be installed ({reason})" if reason else "",
    )
    given.page.write_text(page(summary), encoding="utf-8")
    print(f"{summary.sentence} {given.page}")
    return 1 if summary.wrong else 0


if __name__ == "__main__":
    raise SystemExit(main())
