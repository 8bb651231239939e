"""One parameter in many assays."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from gradassay.api.web.views.history import Judged, history, names, plot, worst


def row(name: str, residual: float | None, *, ratio: float | None = 1.0, verdict: str = "agree") -> dict[str, Any]:
    return {"name": name, "verdict": verdict, "ratio": ratio, "residual": residual, "tolerance": 1e-6}


def judged(*rows: dict[str, Any], commit: str = "0123456789abcdef", run: str = "r1") -> Judged:
    return Judged(
        run=run,
        commit=commit,
        framework="torch",
        framework_version="2.9",
        strategy="ddp",
        layout="dp2",
        posted_at=datetime(2026, 11, 30, tzinfo=UTC),
        against="v1",
        document={"parameters": list(rows)},
    )


def test_points_are_those_of_the_parameter_in_the_order_given():
    runs = [
        judged(row("a", 1e-7), row("b", 1e-7)),
        judged(row("b", 1e-7)),
        judged(row("a", 1.0, ratio=2.0, verdict="diverge"), commit="", run="0f0f0f0f0f0f"),
    ]
    points = history(runs, "a")
    assert [(point.label, point.ratio, point.mark.word) for point in points] == [
        ("0123456789", 1.0, "agree"),
        ("0f0f0f0f0f", 2.0, "diverge"),
    ]


def test_worst_is_farthest_beyond_its_tolerance():
    assert worst(judged(row("a", 1e-7), row("b", 3e-6), row("c", None)).document) == "b"
    assert worst(judged(row("a", None)).document) == "a"
    assert worst(judged().document) == ""


def test_names_are_listed_once():
    assert names([judged(row("b", 0.0), row("a", 0.0)).document, judged(row("a", 0.0)).document]) == ("b", "a")


def test_plot_keeps_what_is_unknown_unknown():
    points = history([judged(row("a", None, ratio=None, verdict="diverge"))], "a")
    assert plot(points) == [
        {
            "label": "0123456789",
            "text": "torch 2.9 ddp dp2: diverge",
            "verdict": "diverge",
            "ratio": None,
            "residual": None,
            "tolerance": 1e-6,
        }
    ]
