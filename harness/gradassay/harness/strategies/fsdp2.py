"""Fully sharded data parallel (`fully_shard`), experts sharded over the ranks that hold the same ones."""

from __future__ import annotations

from gradassay.harness.strategies.protocol import only_data_parallel
from gradassay.harness.strategies.sharded import OPTIONS, Sharded, shard
from gradassay.harness.strategies.task import Plan, Task


class Fsdp2:
    """Every block, its experts and the root are sharded one by one along the first dimension.

    Where ep > 1 experts are sharded over their edp group only, with the divide factor set to dp. In bfloat16 parameters
    are float32 shards, gathered as bfloat16 and reduced in float32.

    Options: sync, reduce after the last micro-batch or after every one; reshard, free the gathered parameters after
    the forward pass or keep them until the backward pass.
    """

    name = "fsdp2"
    options = OPTIONS

    def check(self, plan: Plan) -> None:
        """Raises UsageError for tensor, pipeline and context parallelism and for replicas of shards."""
        only_data_parallel(self, plan.layout)

    def start(self, task: Task) -> Sharded:
        """Training on this rank's shards."""
        return shard(self, task)
