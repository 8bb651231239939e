"""What self-assay adds to a training step of moe-small (DDP, AdamW), as JSON: watched and plain steps in turns.

PYTHONPATH=ci python -m bench.self_assay [--ranks 1 2] [--accum 1 3] [--rounds 15] [--quick]
"""

from __future__ import annotations

import argparse
import json
from contextlib import nullcontext
from statistics import median

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from bench.ranks import is_rank, launch
from bench.turns import in_turns, ratio
from gradassay.harness import Layout, Recorder, load_problem

PROBLEM, QUICK = "moe-small", "moe-tiny"


def main() -> None:
    """Prints {"watched": [...]}; a process that torchrun has started is one rank of one case."""
    parser = argparse.ArgumentParser(description="cost of self-assay")
    parser.add_argument("--ranks", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--accum", type=int, nargs="+", default=[1, 3])
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--quick", action="store_true", help="a small problem and few rounds: proves that it runs")
    given = parser.parse_args()
    rounds = 1 if given.quick else given.rounds
    if is_rank():
        _rank(QUICK if given.quick else PROBLEM, rounds, *given.accum)
        return
    common = ["--rounds", str(rounds), *(["--quick"] if given.quick else [])]
    cases = [(ranks, accum) for ranks in given.ranks for accum in given.accum]
    print(
        json.dumps(
            {"watched": [launch("bench.self_assay", ranks, [*common, "--accum", str(accum)]) for ranks, accum in cases]}
        )
    )


def _rank(name: str, rounds: int, accum: int) -> None:
    dist.init_process_group("gloo")
    rank, layout = dist.get_rank(), Layout(dp=dist.get_world_size(), accum=accum)
    problem = load_problem(name)
    model = DistributedDataParallel(problem.build(torch.float32))
    # Hardly any learning: a model that has learned its batches by heart has denormal gradients, which cost many times more.
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-9)
    batches = [problem.batch(layout.unit(rank, micro)) for micro in range(accum)]
    recorder = Recorder(problem, layout, self_assay=True)
    taken = 0

    def step(watched: bool) -> None:
        nonlocal taken
        if watched:
            recorder.watch(model)
        for micro, batch in enumerate(batches):
            with nullcontext() if micro == accum - 1 else model.no_sync():
                (torch.stack(list(problem.losses(model, batch).values())).sum() / accum).backward()
        if watched:
            taken += 1
            recorder.capture(model, step=taken)
        optimizer.step()
        optimizer.zero_grad()
        dist.barrier()

    spent = in_turns(
        {"plain": lambda: step(False), "watched": lambda: step(True)}, rounds, before=lambda: dist.barrier()
    )
    if rank == 0:
        case = {
            "problem": problem.name,
            "ranks": layout.dp,
            "accum": layout.accum,
            "threads": torch.get_num_threads(),
            "plain_s": median(spent["plain"]),
            "self_assay_s": median(spent["watched"]),
            "ratio": ratio(spent["watched"], spent["plain"]),
            "rounds": rounds,
        }
        print(json.dumps(case), flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
