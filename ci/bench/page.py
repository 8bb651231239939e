"""docs/performance.md, from the results of benchmarks and what was written by hand about them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import isfinite
from typing import Any

from bench.goals import GOALS, Goal, Result

TITLES: Mapping[str, str] = {
    "sketch": "Sketch pass",
    "step": "Captured step",
    "self_assay": "Self-assay",
    "bytes": "Bytes",
    "matrix": "Matrix on the warm pool",
    "assay": "Assay and command line",
    "service": "Service",
    "sketch_gpu": "Sketch kernel for GPUs",
}
NOT_MEASURED = "not measured"
_HEAD = """# Performance

Written by `make bench`. Every ratio is the median of pairs within one run on the same data, tasks taking turns. Where a
row stands for several cases, the worst counts, and is named.

| figure | goal | measured | met |
| --- | ---: | ---: | --- |
"""
_QUICK = "**Small and few, to prove that it runs: none of these figures means anything.**\n\n"
_HIDDEN = ("rounds",)


def page(results: Mapping[str, Result], notes: str) -> str:
    """The page. results: by benchmark, as `run.py` keeps them; one that is missing, or has no such figure, is not measured."""
    rows = "".join(f"| {' | '.join(row(goal, results.get(goal.benchmark)))} |\n" for goal in GOALS)
    parts = [f"## {title}\n\n{_part(results.get(name))}" for name, title in TITLES.items()]
    head = _HEAD if not any(result.get("quick") for result in results.values()) else _QUICK + _HEAD
    return head + rows + "\n" + notes.strip() + "\n\n" + "\n".join(parts)


def row(goal: Goal, result: Result | None) -> tuple[str, str, str, str]:
    """Figure, goal, what was measured, and whether it is met: `yes`, `**missed**` or `not measured`."""
    bound = f"{'>=' if goal.least else '<='} {goal.shown(goal.bound)}"
    try:
        figure, case = goal.found(result or {})
    except (LookupError, TypeError, ValueError):
        return goal.title, bound, "", NOT_MEASURED
    measured = goal.shown(figure) + (f" ({case})" if case else "")
    return goal.title, bound, measured, "yes" if goal.met(figure) else "**missed**"


def missed(results: Mapping[str, Result]) -> list[str]:
    """A line for every goal that was measured and is not met."""
    rows = [row(goal, results.get(goal.benchmark)) for goal in GOALS]
    return [f"{title}: {measured}, goal {bound}" for title, bound, measured, met in rows if met == "**missed**"]


def _part(result: Result | None) -> str:
    if result is None:
        return f"{NOT_MEASURED.capitalize()}.\n"
    tables = [_table(cases) for key, cases in result.items() if key != "machine" and isinstance(cases, list)]
    lines = [_measured_on(result), *tables]
    lines += [str(note) for note in result.get("notes", {}).values()]
    return "\n".join(f"{line.rstrip()}\n" for line in lines if line)


def _measured_on(result: Result) -> str:
    machine = ", ".join(f"{_words(key)} {value}" for key, value in result.get("machine", {}).items())
    facts = [machine, f"measured {result['date']}" if "date" in result else ""]
    if "seconds" in result:
        facts.append(f"in {result['seconds']:.0f} s")
    return "; ".join(filter(None, facts))


def _table(cases: Sequence[Mapping[str, Any]]) -> str:
    """One row a case, one column a key, in the order in which keys first appear."""
    columns = [key for key in dict.fromkeys(key for case in cases for key in case) if key not in _HIDDEN]
    numbers = [all(isinstance(case.get(key, 0), int | float) for case in cases) for key in columns]
    lines = [
        _line(map(_words, columns)),
        _line("---:" if number else "---" for number in numbers),
        *(_line(_shown(key, case.get(key, "")) for key in columns) for case in cases),
    ]
    return "\n".join(lines)


def _line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _words(key: str) -> str:
    for ending, unit in (("_bytes", "MB"), ("_share", "%"), ("_per_s", "/ s"), ("_s", "s")):
        if key.endswith(ending):
            return f"{key.removesuffix(ending).replace('_', ' ')}, {unit}"
    return key.replace("_", " ")


def _shown(key: str, value: object) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name} {_shown(name, part)}" for name, part in value.items())
    if isinstance(value, list):
        return ", ".join(_shown("", part) for part in value)
    if isinstance(value, bool) or not isinstance(value, int | float) or not isfinite(value):
        return str(value)
    if key.endswith("_bytes"):
        return f"{value / 1e6:.4g}"
    if key.endswith("_share"):
        return f"{100 * value:.3g}"
    return f"{value:.3g}" if isinstance(value, float) or value >= 1e6 else str(value)
