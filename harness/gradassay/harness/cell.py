"""One cell of a matrix: a problem run by a strategy in a layout and a dtype profile."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from gradassay.goldens.header import DtypeProfile
from gradassay.goldens.layout import Layout

DTYPES: Mapping[str, DtypeProfile] = {
    "float32": DtypeProfile(),
    "bfloat16": DtypeProfile(parameter="bfloat16", gradient="bfloat16", reduce="float32"),
    "float64": DtypeProfile(parameter="float64", gradient="float64", reduce="float64"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """What to run. strategy: a name of gradassay.harness.strategies. framework: `name==version` of the zoo, or "" for
    this environment. fault: an injected fault as `gradassay faults list` prints it, or "". options: what the strategy
    understands beyond this, as text. full: store the gradients themselves beside their sketches.
    """

    problem: str
    strategy: str
    layout: Layout
    dtype: str = "float32"
    framework: str = ""
    fault: str = ""
    options: Mapping[str, str] = field(default_factory=dict)
    full: bool = False

    def __str__(self) -> str:
        parts = [self.problem, self.strategy, str(self.layout), self.dtype]
        if self.framework:
            parts[1] = f"{self.strategy}@{self.framework}"
        return " ".join(
            [*parts, *(f"{key}={value}" for key, value in self.options.items()), *filter(None, [self.fault])]
        )
