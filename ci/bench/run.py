"""Runs the benchmarks, keeps their results in build/bench, and writes docs/performance.md from all that lie there.

1. PYTHONPATH=ci python -m bench.run
2. PYTHONPATH=ci python -m bench.run --only sketch assay
3. PYTHONPATH=ci python -m bench.run --quick, which proves that all of them run, in build/bench/quick, its page too
4. PYTHONPATH=ci python -m bench.run --page, which measures nothing
Exit code 1 where a benchmark failed or a measured goal is missed, else 0.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from bench.machine import machine
from bench.page import NOT_MEASURED, TITLES, missed, page

ROOT = Path(__file__).parents[2]
RESULTS, PAGE, NOTES = ROOT / "build" / "bench", ROOT / "docs" / "performance.md", Path(__file__).with_name("notes.md")
POSTGRES = "/usr/lib/postgresql"


@dataclass(frozen=True, slots=True, kw_only=True)
class Benchmark:
    """A script that prints JSON: one object of lists of cases, or else a case a line.

    arguments: after `python`. quick: further ones for --quick.
    """

    arguments: Sequence[str]
    quick: Sequence[str] = ("--quick",)


_SERVICE = ("ci/bench/service.py",)
BENCHMARKS: Mapping[str, Benchmark] = {
    "sketch": Benchmark(arguments=("-m", "bench.sketch")),
    "step": Benchmark(arguments=("-m", "bench.step")),
    "self_assay": Benchmark(arguments=("-m", "bench.self_assay")),
    "bytes": Benchmark(arguments=("-m", "bench.bytes")),
    "matrix": Benchmark(arguments=("-m", "bench.matrix")),
    "assay": Benchmark(arguments=("-m", "bench.assay")),
    "service": Benchmark(arguments=_SERVICE, quick=("--runs", "4", "--clients", "1", "2", "--parameters", "8")),
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Writes results and the page."""
    parser = argparse.ArgumentParser(description="run the benchmarks and write docs/performance.md")
    parser.add_argument("--only", nargs="+", choices=BENCHMARKS, default=list(BENCHMARKS))
    parser.add_argument("--quick", action="store_true", help="small and few: the figures mean nothing")
    parser.add_argument("--large", action="store_true", help="tensors of 1e9 elements too")
    parser.add_argument("--page", action="store_true", help="only write the page from the results that are there")
    given = parser.parse_args(arguments)
    folder = RESULTS / "quick" if given.quick else RESULTS
    folder.mkdir(parents=True, exist_ok=True)
    failed = []
    for name in () if given.page else given.only:
        print(f"{name} ...", file=sys.stderr, flush=True)
        if not _measure(name, folder, quick=given.quick, large=given.large):
            failed.append(f"{name}: failed, and is {NOT_MEASURED}")
    results = read(folder)
    target = folder / PAGE.name if given.quick else PAGE
    target.write_text(page(results, NOTES.read_text()))
    print("\n".join([*failed, *missed(results), f"page: {target.relative_to(ROOT)}"]), file=sys.stderr)
    return 1 if failed or missed(results) else 0


def read(folder: Path) -> dict[str, Any]:
    """The results that lie in a folder, by benchmark."""
    paths = {name: folder / f"{name}.json" for name in TITLES}
    return {name: json.loads(path.read_text()) for name, path in paths.items() if path.exists()}


def _measure(name: str, folder: Path, *, quick: bool, large: bool) -> bool:
    """Whether the benchmark came to a result; where it did not, none is left of an earlier run either."""
    path, benchmark = folder / f"{name}.json", BENCHMARKS[name]
    path.unlink(missing_ok=True)
    further = [*(benchmark.quick if quick else ()), *(["--large"] if large and name == "sketch" else [])]
    runs, notes = [further], dict[str, str]()
    if name == "service":
        if Path(POSTGRES).is_dir():
            runs.append([*further, "--postgres"])
        else:
            notes["postgres"] = f"Over Postgres: {NOT_MEASURED}, since none is installed (`make packages`)."
    began, printed = time.perf_counter(), []
    for more in runs:
        done = subprocess.run(
            [sys.executable, *benchmark.arguments, *more],
            cwd=ROOT,
            env=os.environ | {"PYTHONPATH": f"{ROOT / 'ci'}{os.pathsep}{ROOT / 'tests'}"},
            stdout=subprocess.PIPE,
            text=True,
            check=False,
        )
        if done.returncode:
            return False
        printed += [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    if not printed:
        return False
    found = printed[0] if all(isinstance(part, list) for part in printed[0].values()) else {"cases": printed}
    about = {"machine": machine(), "date": datetime.now(UTC).date().isoformat(), "seconds": time.perf_counter() - began}
    path.write_text(json.dumps({**about, "quick": quick, **found, "notes": notes}, indent=1) + "\n")
    return True


if __name__ == "__main__":
    raise SystemExit(main())
