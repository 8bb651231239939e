"""Bytes a second of the sketch kernel for GPUs, against a copy on the same GPU and `torch.sum` of the same tensor.

python ci/bench/sketch_gpu.py [--elements 1e6 1e7 1e8 1e9] [--rounds 15] [--out build/sketch-gpu.json]

Needs a GPU, torch for it, and triton. The kernel, a copy (which reads and writes: twice the bytes), a sum and the checksum
that tells copies apart take turns, each after the cache was overwritten; medians of `rounds` turns. `of copy` is the kernel's
bytes a second over those of the copy: the goal is 0.8 from 1e8 elements on. Results are compared with the kernel for CPUs
first; exit code 1 where they differ or the goal is missed, 2 without a GPU.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gradassay.goldens.sketch import measure_runs
from gradassay.harness.capture.device import choice

GOAL, FROM = 0.8, 10**8
KINDS = {"float32": torch.float32, "bfloat16": torch.bfloat16}
COLUMNS, SHARDS = 8192, 4
CHECKED = 3_000_000
FLUSHED = 1 << 28


def shard(
    elements: int, kind: torch.dtype, device: torch.device, *, columns: bool
) -> tuple[Tensor, NDArray[np.int64], int]:
    """Values, runs and size of the parameter: the whole of it, or a quarter of the columns of each of its rows."""
    if not columns:
        return _random(elements, kind, device), np.array([[0, elements]]), elements
    width = COLUMNS // SHARDS
    rows = max(1, elements // width)
    runs = np.stack((np.arange(rows) * COLUMNS + width, np.full(rows, width)), axis=1)
    return _random(rows * width, kind, device), runs, rows * COLUMNS


def _random(elements: int, kind: torch.dtype, device: torch.device) -> Tensor:
    return torch.randn(elements, dtype=kind, device=device, generator=torch.Generator(device).manual_seed(1))


def differs(kind: torch.dtype, device: torch.device, *, columns: bool) -> str:
    """How the kernel's figures are not those of the kernel for CPUs; empty where they are."""
    values, runs, total = shard(CHECKED, kind, device, columns=columns)
    numbers = choice.numbers(1, device)
    numbers.add(0, values, runs, total)
    sketches, totals = numbers.read()
    exact = measure_runs(values.double().cpu().numpy(), runs, total)
    # A bucket holds about total / 1024 elements, each with an error of a few float32 roundings of a sum of eight.
    if np.abs(sketches[0] - exact.sketch).max() > 1e-5 * (exact.norm2 / 1024) ** 0.5:
        return f"sketch off by {np.abs(sketches[0] - exact.sketch).max():.3g}"
    found = float(totals[0, :, 0].sum()), float(totals[0, :, 1].max())
    if abs(found[0] / exact.norm2 - 1) > 1e-6 or found[1] != exact.absmax:
        return f"(norm2, absmax) {found}, not {(exact.norm2, exact.absmax)}"
    return ""


def measured(elements: int, kind: torch.dtype, device: torch.device, rounds: int, *, columns: bool) -> dict[str, Any]:
    """Gigabytes a second of all four, ratios, and microseconds that the host takes to start the kernel."""
    values, runs, total = shard(elements, kind, device, columns=columns)
    numbers, other, flushed = choice.numbers(1, device), torch.empty_like(values), torch.empty(FLUSHED, device=device)
    tasks: dict[str, Callable[[], object]] = {
        "kernel": lambda: numbers.add(0, values, runs, total),
        "copy": lambda: other.copy_(values),
        "sum": lambda: values.sum(),
        "checksum": lambda: choice.fingerprints([values]),
    }
    seconds: dict[str, list[float]] = {name: [] for name in tasks}
    host = []
    for turn in range(rounds + 2):
        for name, task in tasks.items():
            flushed.zero_()
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            torch.cuda.synchronize()
            begin.record()
            began = time.perf_counter()
            task()
            started = time.perf_counter() - began
            end.record()
            torch.cuda.synchronize()
            if turn >= 2:
                seconds[name].append(begin.elapsed_time(end) / 1e3)
                if name == "kernel":
                    host.append(started)
    size = values.numel() * values.element_size()
    speed = {name: (2 if name == "copy" else 1) * size / median(taken) / 1e9 for name, taken in seconds.items()}
    return {
        "elements": values.numel(),
        "gigabytes_per_s": {name: round(value, 1) for name, value in speed.items()},
        "of_copy": round(speed["kernel"] / speed["copy"], 3),
        "of_sum": round(speed["kernel"] / speed["sum"], 3),
        "host_us": round(median(host) * 1e6, 1),
    }


def main() -> int:
    """Prints a line a case, and writes JSON where asked to."""
    parser = argparse.ArgumentParser(description="the sketch kernel for GPUs against memory bandwidth")
    parser.add_argument("--elements", type=float, nargs="+", default=[1e6, 1e7, 1e8, 1e9])
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    if not torch.cuda.is_available() or not choice.has_triton():
        print("no GPU that torch sees, or no triton: nothing was measured", file=sys.stderr)
        return 2
    device = torch.device("cuda", torch.cuda.current_device())
    machine = {"gpu": torch.cuda.get_device_name(device), "torch": torch.__version__, "sketched": choice.described()}
    print(f"{machine['gpu']}, torch {machine['torch']}, sketched {machine['sketched']}")
    cases, failed = [], False
    for name, kind in KINDS.items():
        for columns in (False, True):
            layout = "columns" if columns else "contiguous"
            if wrong := differs(kind, device, columns=columns):
                print(f"{name} {layout}: {wrong}")
                failed = True
                continue
            for elements in given.elements:
                case = {"dtype": name, "layout": layout}
                case |= measured(int(elements), kind, device, given.rounds, columns=columns)
                cases.append(case)
                missed = case["elements"] >= 0.99 * FROM and case["of_copy"] < GOAL
                failed = failed or missed
                speeds = ", ".join(f"{task} {value:.0f}" for task, value in case["gigabytes_per_s"].items())
                print(
                    f"{name} {layout} {case['elements']:.2g}: of copy {case['of_copy']}, of sum {case['of_sum']} "
                    f"(GB/s: {speeds}; host {case['host_us']} us){' below the goal' if missed else ''}",
                    flush=True,
                )
    if given.out:
        given.out.parent.mkdir(parents=True, exist_ok=True)
        given.out.write_text(json.dumps({"machine": machine, "goal": GOAL, "cases": cases}, indent=1) + "\n")
    return int(failed)


if __name__ == "__main__":
    raise SystemExit(main())
