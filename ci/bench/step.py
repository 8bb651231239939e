"""A captured training step of moe-small (DDP, AdamW) against a plain one, and the memory that capture adds, as JSON.

PYTHONPATH=ci python -m bench.step [--ranks 1 2] [--rounds 15] [--quick]
"""

from __future__ import annotations

import argparse
import json
import sys
from contextlib import nullcontext
from statistics import median

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from bench.memory import peak_added
from bench.ranks import is_rank, launch
from bench.turns import in_turns, ratio
from gradassay.harness import Layout, Recorder, load_problem

PROBLEM, QUICK = "moe-small", "moe-tiny"
STEPS_FOR_MEMORY = 5


def main() -> None:
    """Prints {"steps": [...]}; a process that torchrun has started is one rank of one case."""
    parser = argparse.ArgumentParser(description="cost of capturing a step")
    parser.add_argument("--ranks", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--accum", type=int, default=1)
    parser.add_argument("--quick", action="store_true", help="a small problem and few rounds: proves that it runs")
    given = parser.parse_args()
    if is_rank():
        _rank(QUICK if given.quick else PROBLEM, 3 if given.quick else given.rounds, given.accum)
        return
    print(json.dumps({"steps": [launch("bench.step", ranks, sys.argv[1:]) for ranks in given.ranks]}))


def _rank(name: str, rounds: int, accum: int) -> None:
    dist.init_process_group("gloo")
    rank, layout = dist.get_rank(), Layout(dp=dist.get_world_size(), accum=accum)
    problem = load_problem(name)
    model = DistributedDataParallel(problem.build(torch.float32))
    # Hardly any learning: a model that has learned its batches by heart has denormal gradients, which cost many times more.
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-9)
    batches = [problem.batch(layout.unit(rank, micro)) for micro in range(accum)]
    recorder = Recorder(problem, layout)
    taken = 0

    def capture() -> None:
        nonlocal taken
        taken += 1
        recorder.capture(model, step=taken)

    def backward() -> None:
        for micro, batch in enumerate(batches):
            with nullcontext() if micro == accum - 1 else model.no_sync():
                (torch.stack(list(problem.losses(model, batch).values())).sum() / accum).backward()

    def step(captured: bool) -> None:
        backward()
        if captured:
            capture()
        optimizer.step()
        optimizer.zero_grad()
        dist.barrier()

    spent = in_turns(
        {"plain": lambda: step(False), "captured": lambda: step(True)}, rounds, before=lambda: dist.barrier()
    )
    backward()
    gradients = sum(parameter.grad.nbytes for parameter in model.parameters() if parameter.grad is not None)
    added = median(peak_added(capture) for _ in range(STEPS_FOR_MEMORY))
    if rank == 0:
        kept = recorder.record().captures[f"reduced.{taken}"]
        print(
            json.dumps(
                {
                    "problem": name,
                    "ranks": layout.dp,
                    "accum": accum,
                    "threads": torch.get_num_threads(),
                    "plain_s": median(spent["plain"]),
                    "captured_s": median(spent["captured"]),
                    "ratio": ratio(spent["captured"], spent["plain"]),
                    "rounds": rounds,
                    "gradient_bytes": gradients,
                    "added_bytes": int(added),
                    "added_share": added / gradients,
                    "kept_bytes": kept.sketch.nbytes,
                    "kept_share": kept.sketch.nbytes / gradients,
                }
            ),
            flush=True,
        )
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
