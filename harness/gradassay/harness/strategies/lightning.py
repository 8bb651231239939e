"""Lightning itself, any release, unpatched: its Trainer with DDPStrategy, and with ModelParallelStrategy (FSDP2)."""

from __future__ import annotations

import logging
import os
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch.distributed.fsdp import MixedPrecisionPolicy

from gradassay.goldens.errors import UsageError
from gradassay.goldens.header import Framework
from gradassay.harness.strategies.lightning_training import Training
from gradassay.harness.strategies.lightning_turns import Turns
from gradassay.harness.strategies.protocol import only_data_parallel, option
from gradassay.harness.strategies.task import Plan, Task
from gradassay.harness.strategies.trainable import build, without_expert_parallelism

_SWITCH = ("false", "true")


@dataclass(frozen=True, slots=True)
class Lightning:
    """A `Trainer` that fits by `ddp` or by `fsdp2`, its accumulation and clipping its own.

    Options: precision, of bfloat16 runs: bf16-mixed (autocast, float32 parameters) or bf16-true (everything bfloat16, the
    reduction too), and under FSDP2 also policy, its default: the Trainer at 32-true, and parameters gathered as bfloat16
    and reduced in float32 by `fully_shard`. static_graph of DDP; reshard of FSDP2, free gathered parameters after the
    forward pass.
    """

    kind: str

    @property
    def name(self) -> str:
        """`lightning-` and the kind."""
        return f"lightning-{self.kind}"

    @property
    def options(self) -> Mapping[str, tuple[str, ...]]:
        """Settings of the Trainer and its strategy."""
        if self.kind == "ddp":
            return {"precision": ("bf16-mixed", "bf16-true"), "static_graph": _SWITCH}
        return {"precision": ("policy", "bf16-mixed", "bf16-true"), "reshard": ("true", "false")}

    def check(self, plan: Plan) -> None:
        """Raises UsageError for parallelism that Lightning does not have, and options that say nothing."""
        only_data_parallel(self, plan.layout)
        without_expert_parallelism(self, plan.layout, "Lightning")
        if "precision" in plan.options and plan.dtype != "bfloat16":
            raise UsageError(
                f"{self.name}: precision = {plan.options['precision']} is of bfloat16 runs, this one is {plan.dtype}",
                hint="leave it out, or use bfloat16",
            )
        if self.kind == "fsdp2":
            if plan.dtype == "float64":
                raise UsageError(
                    f"{self.name} does not run float64: ModelParallelStrategy refuses precision 64-true",
                    hint="use float32 or bfloat16, or lightning-ddp",
                )
        elif option(self, plan, "static_graph") == "true" and plan.layout.accum > 1:
            raise UsageError(
                f"{self.name}: torch's DDP fails with static_graph = true where its first backward pass is not reduced, "
                f"as with accum = {plan.layout.accum}",
                hint="use accum = 1",
            )

    def start(self, task: Task) -> Training:
        """A Trainer that has not begun to fit."""
        library, module_type = _import()
        model = build(task)
        if self.kind == "ddp":
            task.watch(model.named_parameters())
        sharding: dict[str, Any] = {}
        if self.kind == "fsdp2":
            sharding = {"shard": self._policy(task.plan), "reshard": option(self, task.plan, "reshard") == "true"}
        module = module_type(task, model, **sharding)
        trainer = self._trainer(library.pytorch, task)

        def fit(pause: Callable[[str], None]) -> None:
            module.pause = pause
            trainer.fit(module)

        return Training(
            task=task,
            module=module,
            fit=Turns(fit),
            framework=Framework(name="lightning", version=library.__version__),
            environment={"precision": str(trainer.precision)},
        )

    def _trainer(self, library: Any, task: Task) -> Any:
        from lightning.fabric.plugins.environments import TorchElasticEnvironment

        world = task.layout.world
        local = int(os.environ.get("LOCAL_WORLD_SIZE", str(world)))
        return library.Trainer(
            accelerator="gpu" if task.device.type == "cuda" else "cpu",
            devices=local,
            num_nodes=world // local,
            strategy=self._strategy(library, task),
            plugins=[TorchElasticEnvironment()],
            precision=self._precision(task.plan),
            accumulate_grad_batches=task.layout.accum,
            gradient_clip_val=task.plan.max_norm or None,
            use_distributed_sampler=False,
            max_epochs=1,
            logger=False,
            enable_checkpointing=False,
            enable_progress_bar=False,
            enable_model_summary=False,
        )

    def _strategy(self, library: Any, task: Task) -> Any:
        if self.kind == "ddp":
            return library.strategies.DDPStrategy(static_graph=option(self, task.plan, "static_graph") == "true")
        if not hasattr(library.strategies, "ModelParallelStrategy"):
            raise UsageError(
                "this release of Lightning has no ModelParallelStrategy",
                hint="use lightning 2.4.0 or newer, or lightning-ddp",
            )
        return library.strategies.ModelParallelStrategy(data_parallel_size=task.layout.dp, tensor_parallel_size=1)

    def _precision(self, plan: Plan) -> str:
        if plan.dtype != "bfloat16":
            return "64-true" if plan.dtype == "float64" else "32-true"
        precision = option(self, plan, "precision")
        return "32-true" if precision == "policy" else precision

    def _policy(self, plan: Plan) -> MixedPrecisionPolicy:
        if plan.dtype == "bfloat16" and option(self, plan, "precision") == "policy":
            return MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
        return MixedPrecisionPolicy()


ddp = partial(Lightning, "ddp")
fsdp2 = partial(Lightning, "fsdp2")


def _import() -> tuple[Any, Any]:
    """The package, its log and its advice about data loaders silent, and the module type made of it."""
    try:
        import lightning

        from gradassay.harness.strategies.lightning_module import Module
    except ImportError as error:
        raise UsageError(
            f"lightning cannot be imported here ({error})",
            hint="name a release, as in lightning==2.6.6, so that its own environment is used",
        ) from error
    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
    warnings.filterwarnings("ignore", module=r"lightning\.pytorch")
    return lightning, Module
