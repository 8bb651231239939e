"""Megatron-Core's DistributedDataParallel itself, with or without its distributed optimizer."""

from __future__ import annotations

from collections.abc import Mapping

from gradassay.goldens.errors import UsageError
from gradassay.harness.problems.shape import Shape
from gradassay.harness.strategies.megatron_core_training import Training
from gradassay.harness.strategies.megatron_core_wrapping import wrap
from gradassay.harness.strategies.protocol import only_data_parallel, option
from gradassay.harness.strategies.task import Plan, Task

_ON, _OFF = ("true", "false"), ("false", "true")


class MegatronDdp:
    """Gradients are accumulated in `main_grad` by the package's hooks, reduced by its buckets and applied by its optimizer,
    all in the order of its schedule for one pipeline stage. Routed parts are its own `MoELayer`.

    Options are fields of `DistributedDataParallelConfig` and `TransformerConfig`; those that are not given keep the first
    value. Replicas are the distributed optimizer's instances.
    """

    name = "megatron-ddp"
    options: Mapping[str, tuple[str, ...]] = {
        "use_distributed_optimizer": _OFF,
        "overlap_grad_reduce": _OFF,
        "average_in_collective": _OFF,
        "grad_reduce_in_fp32": _ON,
        "reduce_scatter_with_fp32_accumulation": _OFF,
        "bucket_size": ("40000000", "10000", "1000"),
        "calculate_per_token_loss": _OFF,
        "moe_token_dispatcher_type": ("alltoall", "allgather"),
    }

    def check(self, plan: Plan) -> None:
        """Raises UsageError for what no release runs, or what the package silently leaves aside."""
        layout, problem = plan.layout, plan.problem
        only_data_parallel(self, layout, replicas=True)
        if plan.dtype not in ("float32", "bfloat16"):
            raise UsageError(f"{self.name} does not run dtype {plan.dtype}", hint="use float32 or bfloat16")
        if layout.edp % layout.replicate:
            raise UsageError(
                f"{self.name}: ep = {layout.ep} does not divide dp/replicate = {layout.dp // layout.replicate}",
                hint="choose ep and replicate so that ep groups lie within one replica",
            )
        if problem.experts and problem.objective == "token-mean":
            raise UsageError(
                f"{self.name} does not run {problem.name}: the package weights auxiliary losses by micro-batch, not token",
                hint="use a problem whose objective is a mean over units",
            )
        if problem.experts and not isinstance(getattr(problem, "shape", None), Shape):
            raise UsageError(
                f"{self.name} does not run {problem.name}: the package's router needs the coefficient of its auxiliary loss",
                hint="use a problem of gradassay's own language model",
            )
        self._check_options(plan)

    def _check_options(self, plan: Plan) -> None:
        def on(key: str) -> bool:
            return option(self, plan, key) == "true"

        replicas = plan.layout.replicate > 1
        fp32, per_token = "reduce_scatter_with_fp32_accumulation", "calculate_per_token_loss"
        for what, given, needs, met in (
            ("replicate > 1", replicas, "use_distributed_optimizer = true", on("use_distributed_optimizer")),
            (fp32, on(fp32), "use_distributed_optimizer = true", on("use_distributed_optimizer")),
            (fp32, on(fp32), "average_in_collective = false", not on("average_in_collective")),
            (fp32, on(fp32), "replicate = 1", not replicas),
            (per_token, on(per_token), "average_in_collective = false", not on("average_in_collective")),
            ("bucket_size", "bucket_size" in plan.options, "overlap_grad_reduce = true", on("overlap_grad_reduce")),
        ):
            if given and not met:
                raise UsageError(f"{self.name}: the package takes {what} only with {needs}", hint=f"set {needs}")

    def start(self, task: Task) -> Training:
        """A wrapped model and its optimizer. Raises UsageError where the release at hand lacks what the plan asks for."""
        return wrap(self, task)
