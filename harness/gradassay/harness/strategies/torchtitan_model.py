"""A problem's model under the attribute names by which torchtitan finds the parts that it shards one by one."""

from __future__ import annotations

from collections.abc import ItemsView, ValuesView
from types import SimpleNamespace

from torch import nn

from gradassay.goldens.errors import UsageError
from gradassay.harness.parallel import ExpertParallel
from gradassay.harness.problems.model import LanguageModel
from gradassay.harness.problems.protocol import Problem
from gradassay.harness.strategies.task import Task
from gradassay.harness.strategies.trainable import precision


class Layers(nn.ModuleList):
    """Blocks in order, which torchtitan reads like a mapping."""

    def items(self) -> ItemsView[str, nn.Module]:
        """Number as text and block."""
        return dict(self.named_children()).items()

    def values(self) -> ValuesView[nn.Module]:
        """The blocks."""
        return dict(self.named_children()).values()


def build_decoder(task: Task) -> nn.Module:
    """The task's model with canonical parameter names; this rank's experts only where ep > 1. Raises UsageError for a
    problem whose model has other parts than torchtitan's decoders.
    """
    problem = task.problem
    model = problem.build(precision(task.plan), device=task.device, experts=ExpertParallel.of(task.ranks))
    if not isinstance(model, LanguageModel):
        raise UsageError(
            f"torchtitan shards embedding, layers, norm and head; the model of {problem.name} is a {type(model).__name__}",
            hint="use another strategy, such as fsdp2",
        )
    model.layers = Layers(model.layers)
    # Kept out of the registry of submodules, so that every parameter has one name.
    vars(model).update(
        tok_embeddings=model.embedding, lm_head=model.head, output=model.head, enable_weight_tying=model.head is None
    )
    for block in problem.blocks(model):
        vars(block).update(moe_enabled=problem.experts > 0)
    _name_experts(problem, model)
    return model


def _name_experts(problem: Problem, model: LanguageModel) -> None:
    for block, experts in zip(problem.blocks(model), problem.expert_modules(model), strict=False):
        vars(experts).update(num_experts=problem.experts)
        vars(block.moe).update(routed_experts=SimpleNamespace(inner_experts=experts))
