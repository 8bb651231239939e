"""DeepSpeed pull request 5555: with sequence parallelism, ZeRO stage 0 averages over its ranks what has to be their sum.

Every rank's loss is its part of the unit's mean loss: that of its own tokens. Runs in releases of DeepSpeed, unpatched.
"""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import torch
import torch.distributed as dist
from faulty.step import step

from gradassay.harness.cell import Cell
from gradassay.harness.problems.protocol import IGNORED, Batch


def run(cell: Cell, out: Path) -> None:
    """An engine of stage 0 over cp ranks that share every unit."""
    from gradassay.harness.strategies import deepspeed_module

    with step(cell, out) as own:
        place, accum = dist.get_rank(), own.layout.accum
        with deepspeed_module.quiet():
            engine, *_ = deepspeed_module.deepspeed.initialize(
                model=own.model(),
                optimizer=None,
                config={
                    "train_micro_batch_size_per_gpu": 1,
                    "gradient_accumulation_steps": accum,
                    "gradient_clipping": 0.0,
                    "zero_optimization": {"stage": 0},
                    "optimizer": {"type": "SGD", "params": {"lr": 0.0}},
                },
                mpu=_units(place, own.layout.cp),
                dist_init_required=False,
            )
        for micro in range(accum):
            batch = own.batch(micro)
            mine = torch.full_like(batch.targets, IGNORED)
            length = batch.targets.shape[1] // own.layout.cp
            part = slice(place * length, (place + 1) * length)
            mine[:, part] = batch.targets[:, part]
            share = (mine != IGNORED).sum() / (batch.targets != IGNORED).sum()
            (loss,) = own.problem.losses(engine, Batch(inputs=batch.inputs, targets=mine)).values()
            engine.backward(loss * share)
            if micro + 1 < accum:
                engine.step()
        version = deepspeed_module.deepspeed.__version__.partition("+")[0]
        own.record_gathered(engine.module, framework="deepspeed", version=version)


def _units(place: int, size: int) -> SimpleNamespace:
    """What DeepSpeed asks for the groups of ranks: one data-parallel rank, `size` sequence-parallel ones."""
    alone = [dist.new_group([rank]) for rank in range(size)][place]
    groups = {
        "model_parallel": (alone, 1, 0),
        "data_parallel": (alone, 1, 0),
        "sequence_parallel": (dist.group.WORLD, size, place),
        "sequence_data_parallel": (dist.group.WORLD, size, place),
    }
    answers = {}
    for name, (group, ranks, rank) in groups.items():
        answers |= {
            f"get_{name}_group": lambda group=group: group,
            f"get_{name}_world_size": lambda ranks=ranks: ranks,
            f"get_{name}_rank": lambda rank=rank: rank,
        }
    return SimpleNamespace(**answers)
