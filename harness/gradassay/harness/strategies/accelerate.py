"""Hugging Face Accelerate itself, any release, unpatched: DistributedDataParallel and FSDP2 by its `prepare`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch.distributed.fsdp import MixedPrecisionPolicy

from gradassay.goldens.errors import UsageError
from gradassay.goldens.header import Framework
from gradassay.harness.capture.unsharded import watch_unsharded
from gradassay.harness.strategies.accelerate_training import Training
from gradassay.harness.strategies.protocol import only_data_parallel, option
from gradassay.harness.strategies.task import Plan, Task
from gradassay.harness.strategies.trainable import build, without_expert_parallelism

_SWITCH = ("false", "true")
_POLICY: Mapping[str, tuple[str, ...]] = {"reduce_dtype": ("bf16", "fp32"), "output_dtype": ("bf16", "none")}
_TYPES = {"bf16": torch.bfloat16, "fp32": torch.float32, "none": None}


@dataclass(frozen=True, slots=True)
class Accelerate:
    """An `Accelerator` that trains by `ddp` or by `fsdp2`. In bfloat16 parameters are float32, and `mixed_precision` is
    bf16: autocast under DDP, parameters gathered as bfloat16 under FSDP2.

    Options, Accelerate's own names: sync_each_batch, reduce after every micro-batch; comm_hook and static_graph of DDP;
    reshard_after_forward of FSDP2, and in bfloat16 reduce_dtype and output_dtype of its policy, both of which Accelerate
    sets to bf16 where nobody says otherwise.
    """

    kind: str

    @property
    def name(self) -> str:
        """`accelerate-` and the kind."""
        return f"accelerate-{self.kind}"

    @property
    def options(self) -> Mapping[str, tuple[str, ...]]:
        """Accelerate's own settings by their names."""
        own: Mapping[str, tuple[str, ...]] = {"comm_hook": ("no", "bf16", "fp16"), "static_graph": _SWITCH}
        if self.kind == "fsdp2":
            own = {"reshard_after_forward": ("true", "false"), **_POLICY}
        return {"sync_each_batch": _SWITCH, **own}

    def check(self, plan: Plan) -> None:
        """Raises UsageError for parallelism that Accelerate does not have, and options that say nothing."""
        only_data_parallel(self, plan.layout, replicas=self.kind == "fsdp2")
        without_expert_parallelism(self, plan.layout, "Accelerate")
        for key in sorted(_POLICY.keys() & plan.options.keys()):
            if plan.dtype != "bfloat16":
                raise UsageError(
                    f"{self.name}: {key} says nothing in {plan.dtype}", hint="leave it out, or use bfloat16"
                )
        if self.kind == "ddp":
            self._check_static_graph(plan)

    def _check_static_graph(self, plan: Plan) -> None:
        every = option(self, plan, "sync_each_batch") == "true"
        if option(self, plan, "static_graph") == "true" and plan.layout.accum > 1 and not every:
            raise UsageError(
                f"{self.name}: torch's DDP fails with static_graph = true where its first backward pass is not reduced, "
                f"as with accum = {plan.layout.accum}",
                hint="set sync_each_batch = true as well, or use accum = 1",
            )

    def start(self, task: Task) -> Training:
        """A prepared model and optimizer before their first window; collective."""
        library = _import()
        accelerator = self._accelerator(library, task)
        model = build(task)
        if self.kind == "ddp":
            task.watch(model.named_parameters())
        _as_of_transformers(model, task)
        trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
        prepared, optimizer = accelerator.prepare(model, torch.optim.SGD(trained, lr=task.plan.learning_rate))
        if self.kind == "fsdp2" and task.watches:
            watch_unsharded(prepared, task.watch)
        return Training(
            task=task,
            accelerator=accelerator,
            model=prepared,
            optimizer=optimizer,
            framework=Framework(name="accelerate", version=library.__version__),
            environment=self._facts(task),
        )

    def _accelerator(self, library: Any, task: Task) -> Any:
        cpu = task.device.type == "cpu"
        settings = self._ddp(task) if self.kind == "ddp" else self._fsdp2(task)
        if self._marked(task):
            state = library.PartialState(cpu=True)
            state._shared_state["distributed_type"] = library.DistributedType.MULTI_GPU
        return library.Accelerator(
            cpu=cpu,
            mixed_precision="bf16" if task.plan.dtype == "bfloat16" else "no",
            gradient_accumulation_plugin=library.utils.GradientAccumulationPlugin(
                num_steps=task.layout.accum,
                sync_each_batch=option(self, task.plan, "sync_each_batch") == "true",
            ),
            **settings,
        )

    def _ddp(self, task: Task) -> dict[str, Any]:
        from accelerate.utils import DDPCommunicationHookType, DistributedDataParallelKwargs

        hook = option(self, task.plan, "comm_hook")
        if hook == "bf16" and task.device.type == "cpu":
            raise UsageError(
                f"{self.name}: torch runs comm_hook = bf16 with nccl only, and these ranks are on CPUs",
                hint="use comm_hook = fp16, or GPUs",
            )
        handler = DistributedDataParallelKwargs(
            comm_hook=DDPCommunicationHookType(hook),
            static_graph=option(self, task.plan, "static_graph") == "true",
        )
        return {"kwargs_handlers": [handler]}

    def _fsdp2(self, task: Task) -> dict[str, Any]:
        from accelerate.utils import FullyShardedDataParallelPlugin

        policy = {}
        if any(option(self, task.plan, key) != self.options[key][0] for key in _POLICY):
            policy["mixed_precision_policy"] = MixedPrecisionPolicy(
                param_dtype=torch.bfloat16,
                reduce_dtype=_TYPES[option(self, task.plan, "reduce_dtype")],
                output_dtype=_TYPES[option(self, task.plan, "output_dtype")],
            )
        try:
            plugin = FullyShardedDataParallelPlugin(
                fsdp_version=2,
                reshard_after_forward=option(self, task.plan, "reshard_after_forward") == "true",
                auto_wrap_policy="transformer_based_wrap",
                cpu_ram_efficient_loading=False,
                **policy,
            )
        except TypeError as error:
            raise UsageError(
                f"this release of Accelerate has no FSDP2 ({error})",
                hint="use accelerate 1.6.0 or newer, or accelerate-ddp",
            ) from error
        return {"fsdp_plugin": plugin, **self._replicas(task)}

    def _replicas(self, task: Task) -> dict[str, Any]:
        replicate = task.layout.replicate
        if replicate == 1:
            return {}
        try:
            from accelerate import ParallelismConfig
        except ImportError as error:
            raise UsageError(
                f"replicate = {replicate}: this release of Accelerate has no replicas of shards ({error})",
                hint="use accelerate 1.10.0 or newer, or replicate = 1",
            ) from error
        return {
            "parallelism_config": ParallelismConfig(
                dp_replicate_size=replicate, dp_shard_size=task.layout.dp // replicate
            )
        }

    def _marked(self, task: Task) -> bool:
        """Whether the process state must be marked as multi-GPU, without which Accelerate ignores FSDP on CPUs and runs
        plain DDP.
        """
        return self.kind == "fsdp2" and task.device.type == "cpu"

    def _facts(self, task: Task) -> dict[str, Any]:
        parts = ["accelerate: process state marked as multi-GPU"]
        return {"stand_in": {"for": "cuda", "parts": parts, "cannot_show": []}} if self._marked(task) else {}


ddp = partial(Accelerate, "ddp")
fsdp2 = partial(Accelerate, "fsdp2")


def _as_of_transformers(model: Any, task: Task) -> None:
    """Adds what Accelerate's FSDP2 reads from a model of transformers: element type (as 1.6.0 does), and the classes of
    modules that are sharded one by one.
    """
    model.dtype = next(model.parameters()).dtype
    model._no_split_modules = sorted({type(block).__name__ for block in task.problem.blocks(model)})


def _import() -> Any:
    try:
        import accelerate
        import accelerate.utils
    except ImportError as error:
        raise UsageError(
            f"accelerate cannot be imported here ({error})",
            hint="name a release, as in accelerate==1.15.0, so that its own environment is used",
        ) from error
    return accelerate
