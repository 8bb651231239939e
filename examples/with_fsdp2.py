"""fully_shard: every rank records its own shards, nothing is gathered.

1. torchrun --nproc-per-node 2 examples/with_fsdp2.py run.safetensors
2. gradassay diff golden:moe-tiny.float32@approved run.safetensors
"""

from __future__ import annotations

import sys

import torch
import torch.distributed as dist
from torch.distributed.fsdp import fully_shard

from gradassay.harness import Layout, Recorder, load_problem


def main(out: str) -> None:
    dist.init_process_group("gloo")
    problem, layout = load_problem("moe-tiny"), Layout(dp=dist.get_world_size(), accum=2)
    model = problem.build(torch.float32)
    for block in problem.blocks(model):
        fully_shard(block)
    fully_shard(model)
    recorder = Recorder(problem, layout, strategy="fsdp2", framework="torch", version=torch.__version__)
    for micro in range(layout.accum):
        model.set_requires_gradient_sync(micro == layout.accum - 1)
        batch = problem.batch(layout.unit(dist.get_rank(), micro))
        (sum(problem.losses(model, batch).values()) / layout.accum).backward()
    recorder.capture(model)
    recorder.save(out)
    dist.destroy_process_group()


if __name__ == "__main__":
    main(sys.argv[1])
