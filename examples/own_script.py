"""A training loop of one's own, with the three lines that record its gradient.

1. python examples/own_script.py run.safetensors
2. torchrun --nproc-per-node 4 examples/own_script.py run.safetensors
3. gradassay diff golden:moe-tiny.float32@approved run.safetensors

What is trained is one of gradassay's problems; `docs/library.md` says how to make one of your own model and data.
"""

from __future__ import annotations

import os
import sys

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from gradassay.harness import Layout, Recorder, load_problem

ACCUM = 3


def main(out: str) -> None:
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    problem, layout = load_problem("moe-tiny"), Layout(dp=world, accum=ACCUM)
    model = DistributedDataParallel(problem.build(torch.float32))
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
    recorder = Recorder(problem, layout, framework="mine", version="1.0")  # 1

    for step in range(2):
        for micro in range(ACCUM):
            model.require_backward_grad_sync = micro == ACCUM - 1
            batch = problem.batch(layout.unit(rank, micro))
            loss = sum(problem.losses(model, batch).values())
            (loss / ACCUM).backward()
        if step == 0:
            recorder.capture(model)  # 2: reduced, not yet clipped
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()

    recorder.save(out)  # 3
    dist.destroy_process_group()


if __name__ == "__main__":
    if "RANK" not in os.environ:
        os.environ.update(RANK="0", WORLD_SIZE="1", MASTER_ADDR="127.0.0.1", MASTER_PORT="0")
    main(sys.argv[1])
