"""torchtitan pull request 1551, PyTorch issue 160285: FSDP2 on the expert mesh divides by the size of that mesh.

An expert's gradient holds the tokens of its whole ep group, so that the mean over edp ranks is ep times too large.
"""

from __future__ import annotations

from pathlib import Path

from faulty.step import step
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

from gradassay.harness.cell import Cell


def run(cell: Cell, out: Path) -> None:
    """FSDP2 with experts sharded over their own mesh."""
    with step(cell, out) as own:
        layout, model = own.layout, own.model()
        dense = init_device_mesh("cpu", (layout.dp,), mesh_dim_names=("dp",))
        spread = init_device_mesh("cpu", (layout.edp, layout.ep), mesh_dim_names=("edp", "ep"))["edp"]
        for experts in own.problem.expert_modules(model):
            fully_shard(experts, mesh=spread)
            if own.mended:
                experts.set_force_sum_reduction_for_comms(True)  # gloo has no other way to a factor
                experts.set_gradient_divide_factor(layout.dp)
        for module in (*own.problem.blocks(model), model):
            fully_shard(module, mesh=dense)
        for micro in range(layout.accum):
            model.set_requires_gradient_sync(micro == layout.accum - 1)
            (own.loss(model, micro) / layout.accum).backward()
        own.record(model)
