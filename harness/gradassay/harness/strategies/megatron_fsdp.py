"""Megatron-FSDP itself, any release from 0.2.3 on, as its own `fully_shard_model` and `fully_shard_optimizer` set it up."""

from __future__ import annotations

from collections.abc import Mapping

from gradassay.goldens.errors import UsageError
from gradassay.harness.strategies.megatron_fsdp_training import Training
from gradassay.harness.strategies.megatron_fsdp_wrapping import wrap
from gradassay.harness.strategies.protocol import only_data_parallel, option
from gradassay.harness.strategies.task import Plan, Task

_ON, _OFF = ("true", "false"), ("false", "true")


class MegatronFsdp:
    """Every block is an FSDP unit. Options are arguments of `fully_shard_model` (`main_params_dtype`, `main_grads_dtype`
    and `grad_comm_dtype` of its mixed precision policy) and `gradient_reduce_div_fusion` of its DDP configuration; one that
    is not given is left to the release.

    Experts are the problem's own; where the release knows expert parallelism they lie on an expert mesh, sharded over their
    edp group. Replicas are the release's hybrid sharding: an outer data-parallel axis.
    """

    name = "megatron-fsdp"
    options: Mapping[str, tuple[str, ...]] = {
        "zero_dp_strategy": ("optim_grads_params", "optim_grads", "optim", "no_shard"),
        "outer_dp_sharding_strategy": ("no_shard", "optim"),
        "gradient_reduce_div_fusion": _ON,
        "average_in_collective": _OFF,
        "calculate_per_token_loss": _OFF,
        "sync_model_each_microbatch": _ON,
        "overlap_grad_reduce": _ON,
        "overlap_param_gather": _ON,
        "disable_bucketing": _OFF,
        "enable_fine_grained_param_gather": _OFF,
        "grad_reduce_in_fp32": _OFF,
        "preserve_fp32_weights": _ON,
        "main_params_dtype": ("float32", "none"),
        "main_grads_dtype": ("none", "float32", "bfloat16"),
        "grad_comm_dtype": ("none", "float32", "bfloat16"),
    }

    def check(self, plan: Plan) -> None:
        """Raises UsageError for what no release runs, or what the package silently takes for something else."""
        layout = plan.layout
        only_data_parallel(self, layout, replicas=True)
        if plan.dtype not in ("float32", "bfloat16"):
            raise UsageError(f"{self.name} does not run dtype {plan.dtype}", hint="use float32 or bfloat16")
        if layout.edp % layout.replicate:
            raise UsageError(
                f"{self.name}: ep = {layout.ep} does not divide dp/replicate = {layout.dp // layout.replicate}",
                hint="choose ep and replicate so that ep groups lie within one replica",
            )
        inner = option(self, plan, "zero_dp_strategy")
        if inner == "no_shard" and layout.replicate > 1:
            raise UsageError(
                f"{self.name} cannot update with zero_dp_strategy = no_shard and replicate = {layout.replicate}: its "
                "parameters have one placement on a mesh of two axes",
                hint="leave replicate at 1, or use zero_dp_strategy = optim",
            )
        if option(self, plan, "outer_dp_sharding_strategy") == "optim":
            if inner != "optim_grads_params":
                raise UsageError(
                    f"{self.name} refuses outer_dp_sharding_strategy = optim with zero_dp_strategy = {inner}",
                    hint="leave zero_dp_strategy at optim_grads_params",
                )
            if layout.replicate == 1:
                raise UsageError(
                    f"{self.name}: outer_dp_sharding_strategy = optim needs an outer axis; layout {layout} has none",
                    hint="set replicate to 2 or more",
                )
        for key in ("overlap_grad_reduce", "overlap_param_gather"):
            needed = ("optim_grads_params",) if key == "overlap_param_gather" else ("optim_grads_params", "optim_grads")
            if inner in needed and option(self, plan, key) == "false":
                raise UsageError(
                    f"{self.name} has no {key} = false with zero_dp_strategy = {inner}",
                    hint=f"leave {key} at true, or use zero_dp_strategy = optim",
                )

    def start(self, task: Task) -> Training:
        """A wrapped model and its optimizer. Raises UsageError where the release at hand lacks what the plan asks for."""
        return wrap(self, task)
