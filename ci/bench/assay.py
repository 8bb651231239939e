"""Seconds of an assay, how they grow with parameters and units, and cold starts of the command line, as JSON.

PYTHONPATH=ci python -m bench.assay [--rounds 7] [--quick]
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any

# As the command line does: threads would wait for each other over many tiny systems.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np

from bench import models
from gradassay.goldens.assay.compare import assay_record
from gradassay.goldens.assay.result import Verdict
from gradassay.goldens.layout import Layout

GROWTH = ((125, 24), (250, 24), (500, 24), (1000, 24), (2000, 24), (1000, 6), (1000, 12), (1000, 48))
QUICK = ((20, 24), (40, 24), (20, 12))
FULL, QUICK_FULL = (10_000, 10_000), (1_000, 1_000)
GRADASSAY = Path(sys.executable).with_name("gradassay")


def main() -> None:
    """Prints {"assays": [...], "starts": [...]}."""
    parser = argparse.ArgumentParser(description="cost of an assay and of the command line's start")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--quick", action="store_true", help="small models and few rounds: proves that it runs")
    given = parser.parse_args()
    rounds = 2 if given.quick else given.rounds
    assays = [case for size in (QUICK if given.quick else GROWTH) for case in _assays(*size, rounds=min(rounds, 3))]
    with tempfile.TemporaryDirectory(prefix="gradassay-bench-") as folder:
        starts = _starts(Path(folder), rounds, quick=given.quick)
    print(json.dumps({"assays": assays, "starts": starts}))


def _assays(count: int, units: int, *, rounds: int) -> list[dict[str, Any]]:
    dp = 4 if units % 4 == 0 else 2
    layout = Layout(dp=dp, ep=2, accum=units // dp)
    golden = models.golden(models.even(count), units)
    by_rank = 1 + np.arange(layout.dp)[:, None] * np.ones(layout.accum) / 8
    cases = []
    for fault, weights in (("none", {}), ("experts x 2", {"expert": 2.0}), ("experts by rank", {"expert": by_rank})):
        record = models.record(golden, layout, weights)
        spent = []
        for _ in range(rounds):
            began = time.perf_counter()
            assay = assay_record(record, golden)
            spent.append(time.perf_counter() - began)
        if assay.verdict is not (Verdict.DIVERGE if weights else Verdict.AGREE):
            raise SystemExit(f"{count} parameters, {units} units, fault {fault}: {assay.sentence}")
        cases.append(
            {
                "parameters": count,
                "units": units,
                "fault": fault,
                "verdict": str(assay.verdict),
                "seconds": median(spent),
                "rounds": rounds,
            }
        )
    return cases


def _starts(folder: Path, rounds: int, *, quick: bool) -> list[dict[str, Any]]:
    few, many, units = models.even(8), models.even(40 if quick else 1000), 4 if quick else 24
    small, large = models.golden(few, 4), models.golden(many, units)
    experts, shape = models.moe_30b()[: 400 if quick else None], QUICK_FULL if quick else FULL
    files = {
        "small-golden": small,
        "small": models.record(small, Layout(dp=4)),
        "large-golden": large,
        "large": models.record(large, Layout(dp=4, accum=units // 4)),
        "one": models.lone_record(many, seed=1),
        "two": models.lone_record(many, seed=2),
        "moe-one": models.lone_record(experts, seed=1),
        "moe-two": models.lone_record(experts, seed=2),
        "whole-one": models.whole_record(shape, seed=1),
        "whole-two": models.whole_record(shape, seed=2),
    }
    for name, file in files.items():
        file.write(folder / f"{name}.safetensors")
    commands = {
        "gradassay --help": ["--help"],
        "diff of small files": ["diff", "small-golden", "small"],
        "diff of two records, 1,000 tensors, 1B parameters": ["diff", "one", "two"],
        "diff of two records with 1e8 whole gradients": ["diff", "whole-one", "whole-two"],
        "diff of two records of a 30B MoE": ["diff", "moe-one", "moe-two"],
        "diff against a golden of 1,000 tensors and 24 units": ["diff", "large-golden", "large"],
    }
    return [_start(title, words, folder, rounds) for title, words in commands.items()]


def _start(title: str, words: list[str], folder: Path, rounds: int) -> dict[str, Any]:
    files = [folder / f"{word}.safetensors" for word in words[1:]]
    forgotten = [argument for file in files for argument in ("--forget", str(file))]
    command = [str(GRADASSAY), *words[:1], *map(str, files)]
    launcher = [sys.executable, "-S", str(Path(__file__).with_name("start.py")), str(rounds), *forgotten, "--"]
    done = subprocess.run([*launcher, *command], cwd=folder, stdout=subprocess.PIPE, text=True, check=True)
    found = json.loads(done.stdout)
    return {
        "command": title,
        "seconds": median(one["seconds"] for one in found),
        "peak_bytes": int(median(one["peak_bytes"] for one in found)),
        "file_bytes": sum(file.stat().st_size for file in files),
        "rounds": rounds,
    }


if __name__ == "__main__":
    main()
