"""ZeRO 0 to 3 of DeepSpeed itself, any release, unpatched."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch

from gradassay.goldens.errors import UsageError
from gradassay.goldens.header import Framework
from gradassay.harness.strategies.deepspeed_moe import canonical_names, parameter_groups, routed_by_deepspeed
from gradassay.harness.strategies.deepspeed_training import Training
from gradassay.harness.strategies.protocol import only_data_parallel, option
from gradassay.harness.strategies.task import Plan, Task

_SWITCH = ("false", "true")


@dataclass(frozen=True, slots=True)
class DeepSpeed:
    """One ZeRO stage (0 to 3) of the DeepSpeed that ranks can import; below 3 a routed layer is DeepSpeed's own MoE."""

    stage: int

    @property
    def name(self) -> str:
        """`deepspeed-zero` and the stage."""
        return f"deepspeed-zero{self.stage}"

    @property
    def options(self) -> Mapping[str, tuple[str, ...]]:
        """DeepSpeed's own settings by their names in its configuration."""
        options = {
            "communication_data_type": ("fp32", "bf16"),
            "prescale_gradients": _SWITCH,
            "gradient_predivide_factor": ("1.0", "2.0", "4.0"),
        }
        if self.stage > 0:
            options |= {
                "reduce_scatter": ("true", "false"),
                "overlap_comm": _SWITCH,
                "contiguous_gradients": ("true", "false"),
            }
        return options

    def check(self, plan: Plan) -> None:
        """Raises UsageError for what DeepSpeed itself refuses in every release that we know."""
        only_data_parallel(self, plan.layout)
        if plan.dtype not in ("float32", "bfloat16"):
            raise UsageError(f"{self.name} does not run dtype {plan.dtype}", hint="use float32 or bfloat16")
        if self.stage == 3 and plan.layout.ep > 1:
            raise UsageError(
                f"{self.name} does not run ep = {plan.layout.ep}: DeepSpeed's MoE layer refuses ZeRO stage 3",
                hint="use ep = 1 (experts are then ordinary parameters), or stages 0, 1 or 2",
            )
        needed = {key for key in ("reduce_scatter", "contiguous_gradients") if self._needs(key, plan)}
        for key in sorted(needed):
            if option(self, plan, key) != "true":
                raise UsageError(
                    f"{self.name} refuses {key} = false with mixture-of-experts layers",
                    hint=f"leave {key} at true, or use a dense problem",
                )
        if self.stage >= 2 and option(self, plan, "reduce_scatter") == "true":
            for key in ("prescale_gradients", "gradient_predivide_factor"):
                if option(self, plan, key) != self.options[key][0]:
                    raise UsageError(
                        f"{self.name} refuses {key} = {plan.options[key]} together with reduce_scatter = true",
                        hint="set reduce_scatter = false as well, or use stage 0 or 1",
                    )

    def _needs(self, key: str, plan: Plan) -> bool:
        """Whether DeepSpeed's MoE layer insists on `key` in this stage."""
        stages = {"reduce_scatter": (1, 2), "contiguous_gradients": (2,)}[key]
        return plan.problem.experts > 0 and self.stage in stages

    def start(self, task: Task) -> Training:
        """A DeepSpeed engine before its first window; collective."""
        module = _import()
        dtype = getattr(torch, task.plan.dtype)
        routed = routed_by_deepspeed(task.ranks) if self.stage < 3 else None
        model = task.problem.build(dtype, device=task.device, routed=routed)
        names = canonical_names(model)
        task.problem.fill(model, {local: name for local, name in names.items() if local != name})
        with module.quiet():
            engine, *_ = module.deepspeed.initialize(
                model=model,
                optimizer=torch.optim.SGD(parameter_groups(model), lr=task.plan.learning_rate),
                config=self.configuration(task.plan),
                dist_init_required=False,
            )
        return Training(
            task=task,
            stage=self.stage,
            engine=engine,
            named=tuple((names[name], parameter) for name, parameter in engine.module.named_parameters()),
            framework=Framework(name="deepspeed", version=module.deepspeed.__version__.split("+")[0]),
            environment={"moe": "deepspeed"} if task.problem.experts and self.stage < 3 else {},
        )

    def configuration(self, plan: Plan) -> dict[str, Any]:
        """The DeepSpeed configuration of a plan."""

        def switch(key: str) -> bool:
            return option(self, plan, key) == "true"

        zero: dict[str, Any] = {"stage": self.stage}
        if self.stage > 0:
            zero |= {key: switch(key) for key in ("reduce_scatter", "overlap_comm", "contiguous_gradients")}
        if self.stage == 3:
            zero["stage3_param_persistence_threshold"] = 0
        return {
            "train_micro_batch_size_per_gpu": 1,
            "gradient_accumulation_steps": plan.layout.accum,
            "gradient_clipping": plan.max_norm,
            "zero_allow_untested_optimizer": True,
            "bf16": {"enabled": plan.dtype == "bfloat16"},
            "communication_data_type": option(self, plan, "communication_data_type"),
            "prescale_gradients": switch("prescale_gradients"),
            "gradient_predivide_factor": float(option(self, plan, "gradient_predivide_factor")),
            "zero_optimization": zero,
        }


zero0 = partial(DeepSpeed, 0)
zero1 = partial(DeepSpeed, 1)
zero2 = partial(DeepSpeed, 2)
zero3 = partial(DeepSpeed, 3)


def _import() -> Any:
    """The module deepspeed_module of these ranks."""
    # ZeRO-3 of old releases asks for the number of ranks on this machine.
    os.environ.setdefault("LOCAL_SIZE", os.environ.get("LOCAL_WORLD_SIZE", os.environ.get("WORLD_SIZE", "1")))
    try:
        from gradassay.harness.strategies import deepspeed_module
    except ImportError as error:
        raise UsageError(
            f"deepspeed cannot be imported here ({error})",
            hint="name a release, as in deepspeed==0.15.3, so that its own environment is used",
        ) from error
    return deepspeed_module
