"""PyTorch pull request 194628: HSDP holds the sums that wait for their all-reduce in the reduction's element type.

Each micro-batch is rounded into a bfloat16 buffer, although parameters and gradients are float32.
"""

from __future__ import annotations

from pathlib import Path

import torch
from faulty.step import step
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

from gradassay.harness.cell import Cell


def run(cell: Cell, out: Path) -> None:
    """HSDP that reduces over replicas after the last micro-batch only."""
    with step(cell, out) as own:
        layout, model = own.layout, own.model()
        shape = (layout.replicate, layout.dp // layout.replicate)
        mesh = init_device_mesh("cpu", shape, mesh_dim_names=("replicate", "shard"))
        policy = MixedPrecisionPolicy(reduce_dtype=torch.float32 if own.mended else torch.bfloat16)
        for module in (*own.problem.blocks(model), model):
            fully_shard(module, mesh=mesh, mp_policy=policy)
        for micro in range(layout.accum):
            model.set_requires_all_reduce(micro == layout.accum - 1)
            (own.loss(model, micro) / layout.accum).backward()
        own.record(model)
