"""What the benchmarks are to come to, and where in their results each figure is found."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Result = Mapping[str, Any]
UNITS: Mapping[str, str] = {"x": "{:.3g} x", "%": "{:.3g} %", "s": "{:.3g} s"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Goal:
    """One figure of one benchmark. unit: a key of UNITS. least: larger is better; else it is to be `bound` at most.

    found: the figure, and the case that it is of, in a benchmark's result; raises LookupError where it is not there.
    """

    benchmark: str
    title: str
    bound: float
    unit: str
    found: Callable[[Result], tuple[float, str]]
    least: bool = False

    def met(self, figure: float) -> bool:
        """Whether a figure is good enough; NaN never is."""
        return figure >= self.bound if self.least else figure <= self.bound

    def shown(self, figure: float) -> str:
        """A figure with its unit."""
        return UNITS[self.unit].format(figure)


def _worst(
    cases: str, key: str, *labels: str, factor: float = 1.0, least: bool = False, **wanted: object
) -> Callable[[Result], tuple[float, str]]:
    """The worst figure `key` of the cases that have the wanted values, and what sets that case apart."""

    def find(result: Result) -> tuple[float, str]:
        chosen: Sequence[Result] = [
            case for case in result[cases] if all(case[name] == value for name, value in wanted.items())
        ]
        if not chosen:
            raise KeyError(f"{cases}: {wanted}")
        worst = (min if least else max)(chosen, key=lambda case: float(case[key]))
        return factor * float(worst[key]), ", ".join(label(name, worst[name]) for name in labels)

    return find


def label(name: str, value: object) -> str:
    """A value as it reads on its own: numbers with what they count."""
    if isinstance(value, str):
        return value
    return f"{value:.3g} {name}" if isinstance(value, float | int) and value >= 1e5 else f"{value} {name}"


_PASS = ("dtype", "elements", "layout")
GOALS: tuple[Goal, ...] = (
    Goal(
        benchmark="sketch",
        title="Sketch pass against `torch.sum`, two threads, from memory",
        bound=1.25,
        unit="x",
        found=_worst("passes", "ratio", *_PASS, threads=2, **{"from": "memory"}),
    ),
    Goal(
        benchmark="sketch",
        title="Sketch pass against `torch.sum`, two threads, tensor in the cache",
        bound=1.25,
        unit="x",
        found=_worst("passes", "ratio", *_PASS, threads=2, **{"from": "cache"}),
    ),
    Goal(
        benchmark="sketch",
        title="Memory that a sketch pass adds, of the largest tensor",
        bound=1.0,
        unit="%",
        found=lambda result: _worst(
            "passes", "added_share", *_PASS, factor=100, elements=max(case["elements"] for case in result["passes"])
        )(result),
    ),
    Goal(
        benchmark="step",
        title="Captured training step against a plain one",
        bound=1.05,
        unit="x",
        found=_worst("steps", "ratio", "problem", "ranks"),
    ),
    Goal(
        benchmark="step",
        title="Memory that capture adds, of the gradients",
        bound=1.0,
        unit="%",
        found=_worst("steps", "added_share", "problem", "ranks", factor=100),
    ),
    Goal(
        benchmark="self_assay",
        title="Training step under self-assay against a plain one, two ranks",
        bound=1.1,
        unit="x",
        found=_worst("watched", "ratio", "problem", "accum", ranks=2),
    ),
    Goal(
        benchmark="self_assay",
        title="Training step under self-assay against a plain one, one rank",
        bound=1.1,
        unit="x",
        found=_worst("watched", "ratio", "problem", "accum", ranks=1),
    ),
    Goal(
        benchmark="bytes",
        title="Bytes of a record, of float32 gradients",
        bound=0.1,
        unit="%",
        found=_worst("files", "record_share", "model", factor=100, gradients="float32"),
    ),
    Goal(
        benchmark="bytes",
        title="Bytes of a record, of bfloat16 gradients",
        bound=0.1,
        unit="%",
        found=_worst("files", "record_share", "model", factor=100, gradients="bfloat16"),
    ),
    Goal(
        benchmark="matrix",
        title="24 cells on the warm pool: how many times faster than one `torchrun` a cell",
        bound=20.0,
        unit="x",
        least=True,
        found=_worst("matrices", "ratio", "compared", least=True, cells=24),
    ),
    Goal(
        benchmark="assay",
        title="Assay of 1,000 parameters x 24 units",
        bound=1.0,
        unit="s",
        found=_worst("assays", "seconds", "fault", parameters=1000, units=24),
    ),
    Goal(
        benchmark="assay",
        title="`gradassay diff` of two 1B-parameter records, cold",
        bound=10.0,
        unit="s",
        found=_worst("starts", "seconds", command="diff of two records, 1,000 tensors, 1B parameters"),
    ),
    Goal(
        benchmark="assay",
        title="`gradassay --help`, cold",
        bound=0.3,
        unit="s",
        found=_worst("starts", "seconds", command="gradassay --help"),
    ),
    Goal(
        benchmark="assay",
        title="`gradassay diff` of small files, cold",
        bound=1.0,
        unit="s",
        found=_worst("starts", "seconds", command="diff of small files"),
    ),
    Goal(
        benchmark="sketch_gpu",
        title="Sketch kernel for GPUs: bytes a second, of those of a copy, from 1e8 elements on",
        bound=80.0,
        unit="%",
        least=True,
        found=lambda result: _worst("cases", "of_copy", *_PASS, factor=100, least=True)(
            {"cases": [case for case in result["cases"] if case["elements"] >= 0.99e8]}
        ),
    ),
)
