"""ZeRO 0 to 3 of DeepSpeed itself, any release, unpatched."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch

from gradassay.goldens.errors import UsageError
from gradassay.goldens.extras import missing_extra
from gradassay.goldens.header import Framework
from gradassay.harness.strategies.deepspeed_moe import canonical_names, parameter_groups, routed_by_deepspeed
from gradassay.harness.strategies.deepspeed_training import Training
from gradassay.harness.strategies.protocol import only_data_parallel, option
from gradassay.harness.strategies.task import Plan, Task

_SWITCH = ("false", "true")
_AS_MODEL = "model"


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
        """DeepSpeed's own settings by their names in its configuration; and `scale_wrt_gas` of `engine.backward`, false
        where the caller divides the loss by the micro-batches; and `fp16_loss_scale`, which turns fp16 on.
        """
        options = {
            "communication_data_type": ("fp32", "bf16", "fp16"),
            "grad_accum_dtype": (_AS_MODEL, "fp32"),
            "prescale_gradients": _SWITCH,
            "gradient_predivide_factor": ("1.0", "2.0", "4.0"),
            "scale_wrt_gas": ("true", "false"),
            "fp16_loss_scale": ("off", "dynamic", "1", "1024", "65536"),
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
        if self._float16(plan) and plan.dtype != "float32":
            raise UsageError(
                f"{self.name} does not run fp16 and {plan.dtype} at once", hint="leave fp16_loss_scale at off, or dtype"
            )
        if self.stage == 0 and plan.dtype == "bfloat16" and option(self, plan, "grad_accum_dtype") == "fp32":
            raise UsageError(
                f"{self.name} has no grad_accum_dtype = fp32 in bfloat16",
                hint="leave it at model, or use stages 1 to 3",
            )
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
        """A DeepSpeed engine before its first window; collective. Raises UsageError for fp16 where the device, or this
        release on it, has none.
        """
        module, plan = _import(), task.plan
        self._check_float16(plan, module)
        routed = routed_by_deepspeed(task.ranks) if self.stage < 3 else None
        model = task.problem.build(self._element(plan), device=task.device, routed=routed)
        names = canonical_names(model)
        task.problem.fill(model, {local: name for local, name in names.items() if local != name})
        with module.quiet():
            engine, *_ = module.deepspeed.initialize(
                model=model,
                optimizer=torch.optim.SGD(parameter_groups(model), lr=plan.learning_rate),
                config=self.configuration(plan),
                dist_init_required=False,
            )
        facts: dict[str, Any] = {
            "accumulate_dtype": str(engine.get_data_types()[1]).removeprefix("torch."),
            "reduce_dtype": str(engine.communication_data_type).removeprefix("torch."),
        }
        if self._float16(plan):
            facts["parameter_dtype"] = "float16"
        if task.problem.experts and self.stage < 3:
            facts["moe"] = "deepspeed"
        if module.STANDING_IN:
            facts["stand_in"] = {"for": "imports of old releases", "parts": list(module.STANDING_IN), "cannot_show": []}
        return Training(
            task=task,
            engine=engine,
            named=tuple((names[name], parameter) for name, parameter in engine.module.named_parameters()),
            framework=Framework(name="deepspeed", version=module.deepspeed.__version__.split("+")[0]),
            scaled=option(self, plan, "scale_wrt_gas") == "true",
            environment=facts,
        )

    def _float16(self, plan: Plan) -> bool:
        return option(self, plan, "fp16_loss_scale") != "off"

    def _element(self, plan: Plan) -> torch.dtype:
        found: torch.dtype = torch.float16 if self._float16(plan) else getattr(torch, plan.dtype)
        return found

    def _check_float16(self, plan: Plan, module: Any) -> None:
        accelerator = module.deepspeed.accelerator.get_accelerator()
        if self._float16(plan) and not accelerator.is_fp16_supported():
            raise UsageError(
                f"{self.name}: fp16_loss_scale = {plan.options['fp16_loss_scale']} needs fp16, which DeepSpeed "
                f"{module.deepspeed.__version__} does not run on this {accelerator.device_name()}",
                hint="run it on GPUs, or leave fp16_loss_scale at off and use dtype bfloat16",
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
        settings: dict[str, Any] = {
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
        if self._float16(plan):
            scale = option(self, plan, "fp16_loss_scale")
            settings["fp16"] = {
                "enabled": True,
                "loss_scale": 0.0 if scale == "dynamic" else float(scale),
                # Releases start elsewhere where this is left out, at scales that overflow.
                "initial_scale_power": 16,
            }
        if option(self, plan, "grad_accum_dtype") != _AS_MODEL:
            settings["data_types"] = {"grad_accum_dtype": option(self, plan, "grad_accum_dtype")}
        return settings


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
        release = "name a release, as in deepspeed==0.15.3, so that its own environment is used"
        raise missing_extra(error, otherwise=f"or {release}") or UsageError(
            f"deepspeed cannot be imported here ({error})",
            hint=release,
        ) from error
    return deepspeed_module
