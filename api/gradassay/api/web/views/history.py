"""One parameter over the runs: ratio, residual and tolerance, oldest first."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from gradassay.api.web.views.marks import Mark, mark


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """One run and the assay of it, as `diff --format json` prints it. against: the version of the golden, as in v3."""

    run: str
    commit: str
    framework: str
    framework_version: str
    strategy: str
    layout: str
    posted_at: datetime
    against: str
    document: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """The parameter in one run. ratio, residual, tolerance: None where the assay knows none."""

    judged: Judged
    mark: Mark
    ratio: float | None
    residual: float | None
    tolerance: float | None

    @property
    def label(self) -> str:
        """How the run is called on the axis: its commit, else its id."""
        return (self.judged.commit or self.judged.run)[:10]


def names(documents: Sequence[Mapping[str, Any]]) -> tuple[str, ...]:
    """The parameters of these assays, in order, each once."""
    return tuple(dict.fromkeys(row["name"] for document in documents for row in document["parameters"]))


def worst(document: Mapping[str, Any]) -> str:
    """The parameter whose residual exceeds its tolerance most; "" where the assay has no parameters."""

    def excess(row: Mapping[str, Any]) -> float:
        residual, tolerance = row["residual"], row["tolerance"]
        return -math.inf if residual is None or not tolerance else residual / tolerance

    rows: Sequence[Mapping[str, Any]] = document["parameters"]
    return str(max(rows, key=excess)["name"]) if rows else ""


def history(judged: Sequence[Judged], parameter: str) -> tuple[Point, ...]:
    """The points of the parameter, of the runs that have it, in the order given."""
    points = []
    for one in judged:
        row = next((row for row in one.document["parameters"] if row["name"] == parameter), None)
        if row is not None:
            points.append(
                Point(
                    judged=one,
                    mark=mark(row["verdict"]),
                    ratio=row["ratio"],
                    residual=row["residual"],
                    tolerance=row["tolerance"],
                )
            )
    return tuple(points)


def plot(points: Sequence[Point]) -> list[dict[str, Any]]:
    """The points as the page's charts read them."""
    return [
        {
            "label": point.label,
            "text": f"{point.judged.framework} {point.judged.framework_version} {point.judged.strategy} "
            f"{point.judged.layout}: {point.mark.word}",
            "verdict": point.mark.word,
            "ratio": point.ratio,
            "residual": point.residual,
            "tolerance": point.tolerance,
        }
        for point in points
    ]
