"""Hybrid sharded data parallel: shards within a group of ranks, copies of them in every group."""

from __future__ import annotations

from gradassay.goldens.errors import UsageError
from gradassay.harness.strategies.protocol import only_data_parallel
from gradassay.harness.strategies.sharded import OPTIONS, Sharded, shard
from gradassay.harness.strategies.task import Plan, Task


class Hsdp:
    """FSDP2 on a mesh of `replicate` x dp/replicate ranks; otherwise as `Fsdp2`.

    An ep group lies within a group of shards, so ep must divide dp/replicate.
    """

    name = "hsdp"
    options = OPTIONS

    def check(self, plan: Plan) -> None:
        """Raises UsageError where the layout has no replicas, or ep groups that reach beyond one."""
        layout = plan.layout
        only_data_parallel(self, layout, replicas=True)
        if layout.replicate == 1:
            choices = [str(size) for size in range(2, layout.dp + 1) if layout.dp % size == 0]
            raise UsageError(
                f"hsdp needs replicas of its shards; layout {layout} has replicate = 1",
                hint=f"set replicate to {' or '.join(choices)}" if choices else "use dp = 2 or more, and set replicate",
            )
        if (layout.dp // layout.replicate) % layout.ep:
            raise UsageError(
                f"hsdp: ep = {layout.ep} does not divide dp/replicate = {layout.dp // layout.replicate}",
                hint="choose ep and replicate so that ep groups lie within one replica",
            )

    def start(self, task: Task) -> Sharded:
        """Training on this rank's shards, each with its copies in the other replicas."""
        return shard(self, task)
