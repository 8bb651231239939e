"""One cell of a matrix: a problem run by a strategy in a layout and a dtype profile."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from gradassay.goldens.errors import UsageError
from gradassay.goldens.header import DtypeProfile
from gradassay.goldens.layout import Layout

DTYPES: Mapping[str, DtypeProfile] = {
    "float32": DtypeProfile(),
    "bfloat16": DtypeProfile(parameter="bfloat16", gradient="bfloat16", reduce="float32"),
    "float64": DtypeProfile(parameter="float64", gradient="float64", reduce="float64"),
}

STAGES = ("local", "reduced", "clipped", "update")
"""Where gradients can be captured, in the order of a step: every rank's own of every micro-batch; reduced; clipped; what
the update of the parameters comes to (the change divided by the learning rate).
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """What to run. strategy: a name of gradassay.harness.strategies. framework: `name==version` of the zoo, or "" for
    this environment. fault: an injected fault as `gradassay faults list` prints it, or "". options: what the strategy
    understands beyond this, as text. full: store the gradients themselves beside their sketches. stages: where to
    capture, of STAGES. steps: how many windows to run, each after an update by SGD with learning_rate, before which the
    total norm is clipped to max_norm (0: not). Raises UsageError for stages that these do not give.
    """

    problem: str
    strategy: str
    layout: Layout
    dtype: str = "float32"
    framework: str = ""
    fault: str = ""
    options: Mapping[str, str] = field(default_factory=dict)
    full: bool = False
    stages: tuple[str, ...] = ("reduced",)
    steps: int = 1
    learning_rate: float = 0.0
    max_norm: float = 0.0

    def __post_init__(self) -> None:
        unknown = [stage for stage in self.stages if stage not in STAGES]
        if unknown or not self.stages:
            named = f"no stage is called {unknown[0]!r}" if unknown else "no stage is named"
            raise UsageError(named, hint=f"choose from {', '.join(STAGES)}")
        if "clipped" in self.stages and not self.max_norm:
            raise UsageError("stage clipped needs a norm to clip to", hint="give --max-norm")
        if ("update" in self.stages or self.steps > 1) and not self.learning_rate:
            raise UsageError("an update of the parameters needs a learning rate", hint="give --learning-rate")

    def __str__(self) -> str:
        parts = [self.problem, self.strategy, str(self.layout), self.dtype]
        if self.framework:
            parts[1] = f"{self.strategy}@{self.framework}"
        parts += [f"{key}={value}" for key, value in self.options.items()]
        parts += [self.fault] if self.fault else []
        if self.stages != ("reduced",):
            parts.append(f"stages={'+'.join(self.stages)}")
        parts += [f"steps={self.steps}"] if self.steps > 1 else []
        parts += [f"rate={self.learning_rate:g}"] if self.learning_rate else []
        parts += [f"norm={self.max_norm:g}"] if self.max_norm else []
        return " ".join(parts)
