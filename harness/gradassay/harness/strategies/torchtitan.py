"""torchtitan's own data parallelism, any release since 0.2.1: `apply_fsdp` and, up to 0.2.2, `apply_ddp`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch

from gradassay.goldens.errors import UsageError
from gradassay.goldens.header import Framework
from gradassay.harness.strategies.protocol import only_data_parallel, option
from gradassay.harness.strategies.task import Plan, Task
from gradassay.harness.strategies.torchtitan_model import build_decoder
from gradassay.harness.strategies.torchtitan_training import Training
from gradassay.harness.strategies.torchtitan_wrapping import facts, replicate, shard
from gradassay.harness.strategies.trainable import without_expert_parallelism


@dataclass(frozen=True, slots=True)
class Torchtitan:
    """A model that is parallel by `fsdp2` or by `ddp`, with the meshes of torchtitan's `ParallelDims`.

    In bfloat16 parameters are float32: FSDP gathers them as bfloat16 and reduces in float32, DDP runs under autocast,
    both as the Trainer has it.

    Options: loss, how losses are weighted before their backward passes. `mean`: for gradients that are averaged over
    ranks; where a release sums instead and leaves division to its caller, the record declares the convention. `trainer`:
    as the release's own Trainer does, by the number of all ranks' tokens since 0.2.2, before that as `mean`. reshard, of
    FSDP: its `reshard_after_forward_policy`.
    """

    kind: str

    @property
    def name(self) -> str:
        """`torchtitan-` and the kind."""
        return f"torchtitan-{self.kind}"

    @property
    def options(self) -> Mapping[str, tuple[str, ...]]:
        """The weighting of losses, and torchtitan's own setting."""
        loss = {"loss": ("mean", "trainer")}
        return {**loss, "reshard": ("default", "always", "never")} if self.kind == "fsdp2" else loss

    def check(self, plan: Plan) -> None:
        """Raises UsageError for parallelism that is not its data parallelism, and where it has no clipping."""
        layout = plan.layout
        only_data_parallel(self, layout, replicas=self.kind == "fsdp2")
        if self.kind == "ddp":
            without_expert_parallelism(self, layout, "torchtitan's DDP")
        if (layout.dp // layout.replicate) % layout.ep:
            raise UsageError(
                f"{self.name}: ep = {layout.ep} does not divide dp/replicate = {layout.dp // layout.replicate}",
                hint="choose ep and replicate so that ep groups lie within one replica",
            )
        if layout.ep > 1 and plan.max_norm > 0:
            raise UsageError(
                f"{self.name}: torchtitan clips experts that are one sharded tensor; with ep = {layout.ep} these are not",
                hint="use ep = 1, or no clipping",
            )

    def start(self, task: Task) -> Training:
        """A parallel model before its first window; collective."""
        library = _import()
        model = build_decoder(task)
        if self.kind == "ddp":
            task.watch(model.named_parameters())
            replicate(library, task, model)
        else:
            shard(library, task, model, reshard=option(self, task.plan, "reshard"))
        by_trainer = option(self, task.plan, "loss") == "trainer"
        averages = library.divides or self.kind == "ddp"
        trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
        return Training(
            task=task,
            model=model,
            # Parameters lie on two meshes, which no operation on all of them at once would take.
            optimizer=torch.optim.SGD(trained, lr=task.plan.learning_rate, foreach=False),
            scale=1.0 / task.layout.dp if by_trainer and not library.divides else 1.0,
            context=self._context(task),
            clipping=library.clip_grad_norm,
            framework=Framework(name="torchtitan", version=library.version),
            convention={} if averages or by_trainer else {"all": "dp"},
            environment=facts(library, task, model),
        )

    def _context(self, task: Task) -> Callable[[], AbstractContextManager[Any]]:
        if self.kind == "ddp" and task.plan.dtype == "bfloat16":
            return partial(torch.autocast, task.device.type, dtype=torch.bfloat16)
        return nullcontext


fsdp2 = partial(Torchtitan, "fsdp2")
ddp = partial(Torchtitan, "ddp")


def _import() -> Any:
    try:
        from gradassay.harness.strategies import torchtitan_module
    except ImportError as error:
        raise UsageError(
            f"torchtitan cannot be imported here ({error})",
            hint="name a release, as in torchtitan==0.3.0, so that its own environment is used",
        ) from error
    if not torchtitan_module.supported:
        raise UsageError(
            f"torchtitan {torchtitan_module.version} lays out its meshes otherwise",
            hint="use torchtitan 0.2.1 or newer",
        )
    return torchtitan_module
