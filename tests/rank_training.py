"""Somebody's own training script, captured by a Recorder."""

from __future__ import annotations

from pathlib import Path
from typing import Any


def train_and_record(kind: str, out: Path) -> Any:
    """A step on `moe-tiny` on two ranks; kind: plain, ddp, fsdp2, or forgotten (never reduced)."""
    import torch
    import torch.distributed as dist
    from torch.distributed.fsdp import fully_shard
    from torch.nn.parallel import DistributedDataParallel

    from gradassay.harness import Layout, Recorder, load_problem

    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    try:
        problem, layout, rank = load_problem("moe-tiny"), Layout(dp=2, accum=2), dist.get_rank()
        model: Any = problem.build(torch.float32)
        if kind == "ddp":
            model = DistributedDataParallel(model)
        if kind == "fsdp2":
            for block in problem.blocks(model):
                fully_shard(block)
            fully_shard(model)
        for micro in range(layout.accum):
            loss = sum(problem.losses(model, problem.batch(layout.unit(rank, micro))).values())
            (loss / layout.accum).backward()
        if kind == "plain":
            for parameter in model.parameters():
                dist.all_reduce(parameter.grad)
                parameter.grad /= layout.dp
        recorder = Recorder(problem, layout, framework="mine")
        recorder.capture(model)
        recorder.save(out)
        return out.exists()
    finally:
        dist.destroy_process_group()
