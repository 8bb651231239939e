"""What the charts of ratios and residuals are drawn from, and the same by family as a table."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from gradassay.goldens.report.printable import printable

SIZES = ("dp", "ep", "accum")


@dataclass(frozen=True, slots=True, kw_only=True)
class FamilySummary:
    """The parameters of one family. Ratios and residuals are None where none is known."""

    family: str
    parameters: int
    diverging: int
    least_ratio: float | None
    median_ratio: float | None
    greatest_ratio: float | None
    greatest_residual: float | None
    tolerance: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Scatter:
    """Points of the charts, column by column, for charts.js. off_axis: why some parameters have no place on a log axis."""

    points: dict[str, Any]
    families: tuple[FamilySummary, ...]
    ratios_off_axis: int
    residuals_off_axis: int


def scatter(document: Mapping[str, Any]) -> Scatter:
    """The charts of an assay. Only positive numbers have a place on a log axis; how many have none is counted."""
    parameters: Sequence[Mapping[str, Any]] = document["parameters"]
    families = sorted({parameter["family"] for parameter in parameters})
    ratios = [_positive(parameter["ratio"]) for parameter in parameters]
    residuals = [_positive(parameter["residual"]) for parameter in parameters]
    lines = guides(document["layout"])
    return Scatter(
        points={
            "names": [printable(parameter["name"]) for parameter in parameters],
            "families": [printable(family) for family in families],
            "family": [families.index(parameter["family"]) for parameter in parameters],
            "diverge": [int(parameter["verdict"] != "agree") for parameter in parameters],
            "ratio": ratios,
            "residual": residuals,
            "tolerance": [_positive(parameter["tolerance"]) for parameter in parameters],
            "guides": [{"value": value, "label": label} for value, label in lines],
            "low": _power_below([value for value in (*ratios, *(value for value, _ in lines)) if value]),
            "high": _power_above([value for value in (*ratios, *(value for value, _ in lines)) if value]),
        },
        families=tuple(_summary(family, parameters) for family in families),
        ratios_off_axis=ratios.count(None),
        residuals_off_axis=residuals.count(None),
    )


def guides(layout: Mapping[str, int]) -> tuple[tuple[float, str], ...]:
    """The factors that layouts suggest, from the smallest, equal ones under one name: (0.25, "1/dp, 1/accum = 1/4")."""
    names: dict[int, list[str]] = {}
    for name in SIZES:
        if layout[name] > 1:
            names.setdefault(layout[name], []).append(name)
    lines = [(float(size), f"{', '.join(named)} = {size}") for size, named in names.items()]
    lines += [(1 / size, f"{', '.join(f'1/{name}' for name in named)} = 1/{size}") for size, named in names.items()]
    return tuple(sorted([*lines, (1.0, "1")]))


def _positive(value: float | None) -> float | None:
    """Seven digits are more than a screen shows, and a third of the page's bytes."""
    return float(f"{value:.7g}") if value is not None and value > 0 else None


def _power_below(values: Sequence[float]) -> float:
    return float(2.0 ** min(-1, math.floor(math.log2(min(values)) - 0.2)))


def _power_above(values: Sequence[float]) -> float:
    return float(2.0 ** max(1, math.ceil(math.log2(max(values)) + 0.2)))


def _summary(family: str, parameters: Sequence[Mapping[str, Any]]) -> FamilySummary:
    members = [parameter for parameter in parameters if parameter["family"] == family]

    def known(column: str) -> list[float]:
        return [parameter[column] for parameter in members if parameter[column] is not None]

    ratios = known("ratio")
    return FamilySummary(
        family=family,
        parameters=len(members),
        diverging=sum(parameter["verdict"] != "agree" for parameter in members),
        least_ratio=min(ratios, default=None),
        median_ratio=median(ratios) if ratios else None,
        greatest_ratio=max(ratios, default=None),
        greatest_residual=max(known("residual"), default=None),
        tolerance=max(known("tolerance"), default=None),
    )
