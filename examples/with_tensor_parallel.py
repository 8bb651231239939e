"""Tensor parallelism by DTensors on a dp x tp mesh, sharded by fully_shard along dp.

1. torchrun --nproc-per-node 4 examples/with_tensor_parallel.py run.safetensors
2. gradassay diff golden:moe-tiny.float32@approved run.safetensors
"""

from __future__ import annotations

import sys

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

from gradassay.harness import Layout, Recorder, load_problem

TP = 2


def main(out: str) -> None:
    dist.init_process_group("gloo")
    problem, layout = load_problem("moe-tiny"), Layout(dp=dist.get_world_size() // TP, tp=TP, accum=2)
    mesh = init_device_mesh("cpu", (layout.dp, layout.tp), mesh_dim_names=("dp", "tp"))
    model = problem.build(torch.float32)
    for block in problem.blocks(model):
        parallelize_module(block, mesh["tp"], {"mlp.up": ColwiseParallel(), "mlp.down": RowwiseParallel()})
        fully_shard(block, mesh=mesh["dp"])
    fully_shard(model, mesh=mesh["dp"])
    recorder = Recorder(problem, layout, strategy="fsdp2-tp", framework="torch", version=torch.__version__)
    for micro in range(layout.accum):
        batch = problem.batch(layout.unit(mesh["dp"].get_local_rank(), micro))
        (sum(problem.losses(model, batch).values()) / layout.accum).backward()
    recorder.capture(model)
    recorder.save(out)
    dist.destroy_process_group()


if __name__ == "__main__":
    main(sys.argv[1])
