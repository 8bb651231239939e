"""What self-assay adds to a training step, as JSON: median ratio within one run, watched and plain steps in turns.

torchrun --nproc-per-node 2 ci/bench/self_assay.py [--accum 3] [--rounds 7]      (OMP_NUM_THREADS=1 on 2 cores)
"""

from __future__ import annotations

import argparse
import json
import time
from contextlib import nullcontext
from statistics import median

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from gradassay.harness import Layout, Recorder, load_problem


def main() -> None:
    """Prints both medians and their ratio on rank 0."""
    parser = argparse.ArgumentParser(description="cost of self-assay on moe-small, DDP and AdamW")
    parser.add_argument("--accum", type=int, default=3)
    parser.add_argument("--rounds", type=int, default=7)
    given = parser.parse_args()
    dist.init_process_group("gloo")
    rank, layout = dist.get_rank(), Layout(dp=dist.get_world_size(), accum=given.accum)
    problem = load_problem("moe-small")
    model = DistributedDataParallel(problem.build(torch.float32))
    # Hardly any learning: a model that has learned its batches by heart has denormal gradients, which cost many times more.
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-9)
    batches = [problem.batch(layout.unit(rank, micro)) for micro in range(given.accum)]
    recorder = Recorder(problem, layout, self_assay=True)
    seconds: dict[bool, list[float]] = {False: [], True: []}
    for number in range(given.rounds + 1):
        for watched in (False, True):
            dist.barrier()
            began = time.perf_counter()
            if watched:
                recorder.watch(model)
            for micro, batch in enumerate(batches):
                with nullcontext() if micro == given.accum - 1 else model.no_sync():
                    (torch.stack(list(problem.losses(model, batch).values())).sum() / given.accum).backward()
            if watched:
                recorder.capture(model, step=number + 1)
            optimizer.step()
            optimizer.zero_grad()
            dist.barrier()
            if number:
                seconds[watched].append(time.perf_counter() - began)
    if rank == 0:
        ratios = [watched_s / plain for plain, watched_s in zip(seconds[False], seconds[True], strict=True)]
        case = {
            "problem": problem.name,
            "ranks": layout.dp,
            "accum": layout.accum,
            "plain_s": median(seconds[False]),
            "self_assay_s": median(seconds[True]),
            "ratio": median(ratios),
            "rounds": len(ratios),
        }
        print(json.dumps(case))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
