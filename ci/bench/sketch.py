"""The sketch pass against `torch.sum` of the same tensor, and beside it what others do to it, as JSON.

PYTHONPATH=ci python -m bench.sketch [--large] [--quick] [--threads 1 2]
"""

from __future__ import annotations

import argparse
import hashlib
import json
import multiprocessing
import os
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors.torch import save_file
from torch import Tensor

from bench.memory import peak_added
from bench.turns import in_turns, ratio
from gradassay.goldens.sketch import measure_runs

SIZES, LARGE, QUICK = (10**6, 10**7, 10**8, 270_000_000), 10**9, (10**6, 3 * 10**6)
KINDS = {"float32": torch.float32, "bfloat16": torch.bfloat16}
# A shard by columns: a quarter of every row of so many elements, as tensor parallelism leaves it.
COLUMNS, SHARDS = 8192, 4
# Larger than caches: written to before what is to come from memory.
FLUSHED = 1 << 24
CACHED = 10**7
# After a parallel loop torch's threads spin for some milliseconds, on cores that whoever comes next would use.
REST_S = 0.02


def main() -> None:
    """Prints {"passes": [...], "others": [...]}."""
    parser = argparse.ArgumentParser(description="the sketch pass against torch.sum")
    parser.add_argument("--large", action="store_true", help="1e9 elements too")
    parser.add_argument("--quick", action="store_true", help="small tensors and few rounds: proves that it runs")
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    given = parser.parse_args()
    sizes = QUICK if given.quick else (*SIZES, LARGE) if given.large else SIZES
    passes, others = [], []
    for threads in given.threads:
        os.environ |= {"OMP_NUM_THREADS": str(threads), "NUMBA_NUM_THREADS": str(threads)}
        # A process of its own, since both libraries look only once how many threads they may use.
        with multiprocessing.get_context("spawn").Pool(1) as child:
            passes += child.apply(measure_passes, (threads, sizes, given.quick))
            if threads == given.threads[-1]:
                others += child.apply(measure_others, (threads, sizes, given.quick))
    print(json.dumps({"passes": passes, "others": others}))


def measure_passes(threads: int, sizes: Sequence[int], quick: bool) -> list[dict[str, Any]]:
    """A case for every size, dtype and layout, in the cache where it fits and out of it."""
    flushed = torch.zeros(FLUSHED)
    cases = []
    for kind in KINDS:
        for layout in ("contiguous", "columns"):
            for size in sizes:
                values, runs, total = tensor(size, kind, layout)
                array = as_array(values)
                tasks: dict[str, Callable[[], object]] = {
                    "sketch": lambda array=array, runs=runs, total=total: measure_runs(array, runs, total),  # type: ignore[misc]
                    "sum": values.sum,
                }
                for source in ("memory", "cache") if size <= CACHED else ("memory",):
                    spent = in_turns(
                        tasks,
                        rounds(size, quick),
                        before=(lambda: _flush(flushed)) if source == "memory" else None,
                        warm_s=REST_S if source == "cache" else 0.0,
                    )
                    added = peak_added(tasks["sketch"])
                    cases.append(
                        {
                            "dtype": kind,
                            "elements": values.numel(),
                            "layout": layout,
                            "threads": threads,
                            "from": source,
                            "sketch_s": median(spent["sketch"]),
                            "sum_s": median(spent["sum"]),
                            "ratio": ratio(spent["sketch"], spent["sum"]),
                            "rounds": len(spent["sum"]),
                            "added_bytes": added,
                            "added_share": added / values.nbytes,
                        }
                    )
    return cases


def _flush(flushed: Tensor) -> None:
    flushed.add_(1.0)
    time.sleep(REST_S)


def measure_others(threads: int, sizes: Sequence[int], quick: bool) -> list[dict[str, Any]]:
    """What others do to a tensor, for each size and dtype: seconds relative to the sketch pass, and memory added."""
    cases = []
    for kind in KINDS:
        for size in sizes:
            values, runs, total = tensor(size, kind, "contiguous")
            array = as_array(values)
            with tempfile.TemporaryDirectory(prefix="gradassay-bench-") as folder:
                tasks: dict[str, Callable[[], object]] = {
                    "sketch": lambda array=array, runs=runs, total=total: measure_runs(array, runs, total),  # type: ignore[misc]
                    "max, min, mean, norm": lambda values=values: [  # type: ignore[misc]
                        values.max(),
                        values.min(),
                        values.mean(),
                        values.norm(),
                    ],
                    "md5": lambda array=array: hashlib.md5(array.data),  # type: ignore[misc]
                    "torch.save": lambda values=values, path=Path(folder) / "t.pt": torch.save(values, path),  # type: ignore[misc]
                    "safetensors": lambda values=values, path=Path(folder) / "t.safetensors": save_file(  # type: ignore[misc]
                        {"t": values}, path
                    ),
                }
                spent = in_turns(tasks, 1 if quick else 3)
                cases += [
                    {
                        "dtype": kind,
                        "elements": size,
                        "threads": threads,
                        "task": name,
                        "seconds": median(spent[name]),
                        "of_sketch": ratio(spent[name], spent["sketch"]),
                        "added_bytes": peak_added(task),
                    }
                    for name, task in tasks.items()
                ]
    return cases


def tensor(elements: int, kind: str, layout: str) -> tuple[Tensor, NDArray[np.int64], int]:
    """Values, runs and size of the parameter: the whole of it, or a quarter of the columns of each of its rows."""
    width = COLUMNS // SHARDS
    rows = max(1, elements // width)
    if layout == "contiguous":
        return _random(elements, kind), np.array([[0, elements]]), elements
    runs = np.stack((np.arange(rows) * COLUMNS + width, np.full(rows, width)), axis=1)
    return _random(rows * width, kind), runs, rows * COLUMNS


def as_array(values: Tensor) -> NDArray[np.generic]:
    """The same memory as float32, or as the bits of bfloat16."""
    array: NDArray[np.generic] = (
        values.numpy() if values.dtype == torch.float32 else values.view(torch.int16).numpy().view(np.uint16)
    )
    return array


def rounds(elements: int, quick: bool) -> int:
    """More of them where one takes less."""
    if quick:
        return 3
    return 41 if elements <= CACHED else 15 if elements <= 10**8 else 7


def _random(elements: int, kind: str) -> Tensor:
    return torch.empty(elements, dtype=KINDS[kind]).normal_(generator=torch.Generator().manual_seed(1))


if __name__ == "__main__":
    main()
