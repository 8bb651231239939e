"""DistributedDataParallel, compiled, with gradient accumulation under no_sync().

1. torchrun --nproc-per-node 2 examples/with_ddp.py run.safetensors
2. gradassay diff golden:moe-tiny.float32@approved run.safetensors
"""

from __future__ import annotations

import sys
from contextlib import nullcontext

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from gradassay.harness import Layout, Recorder, load_problem


def main(out: str) -> None:
    dist.init_process_group("gloo")
    problem, layout = load_problem("moe-tiny"), Layout(dp=dist.get_world_size(), accum=2)
    replicas = DistributedDataParallel(problem.build(torch.float32))
    model = torch.compile(replicas, backend="eager")
    recorder = Recorder(problem, layout, strategy="ddp", framework="torch", version=torch.__version__)
    for micro in range(layout.accum):
        last = micro == layout.accum - 1
        with nullcontext() if last else replicas.no_sync():
            batch = problem.batch(layout.unit(dist.get_rank(), micro))
            (sum(problem.losses(model, batch).values()) / layout.accum).backward()
    recorder.capture(model)
    recorder.save(out)
    dist.destroy_process_group()


if __name__ == "__main__":
    main(sys.argv[1])
