"""Weights put together, and drawn."""

from __future__ import annotations

import pytest

from gradassay.goldens.report.grid import grid
from gradassay.goldens.report.heatmap import heatmap, shade


def test_neighbours_that_print_alike_become_one() -> None:
    made = grid([[2.0, 2.00000001, 4.0], [2.0, 2.0, 4.0], [2.0, 3.0, 4.0]])

    assert made.rows == ("r = 0–1", "r = 2")
    assert made.columns == ("m = 0", "m = 1", "m = 2")
    assert made.texts == (("2", "2", "4"), ("2", "3", "4"))
    assert made.uniform == ""
    assert grid([[2.0, 2.0], [2.0, 2.0]]).uniform == "2"


def test_rounding_beside_large_weights_prints_as_zero_but_small_weights_do_not() -> None:
    assert grid([[4.0, 3e-8], [-2e-8, 4.0]]).texts == (("4", "0"), ("0", "4"))
    assert grid([[2.0**-16, 2.0**-16]]).uniform == "1.5e-5"
    assert grid([[None, float("nan")]]).texts == (("—", "nan"),)


@pytest.mark.parametrize(
    ("value", "text", "reach", "expected"),
    [
        (1.0, "1", 2.0, "s0"),
        (4.0, "4", 2.0, "high5"),
        (2.0, "2", 2.0, "high2"),
        (0.25, "0.25", 2.0, "low5"),
        (1.001, "1.001", 8.0, "high1"),
        (0.999, "0.999", 8.0, "low1"),
        (0.0, "0", 1.0, "zero"),
        (-1e-9, "0", 1.0, "zero"),
        (-1.0, "-1", 1.0, "negative"),
        (float("inf"), "inf", 1.0, "nonfinite"),
        (None, "—", 1.0, "unobserved"),
    ],
)
def test_shades_are_centred_on_one(value: float | None, text: str, reach: float, expected: str) -> None:
    assert shade(value, text, reach) == expected


def test_a_drawing_has_a_legend_and_says_what_it_shows() -> None:
    drawn = heatmap(grid([[0.25, 1.0, 4.0], [0.25, None, 4.0]], compact=False))

    assert len(drawn.cells) == 6
    assert drawn.legend[0] == ("low5", "0.25")
    assert drawn.legend[10] == ("high5", "4")
    assert drawn.legend[11:] == (("unobserved", "not observed"),)
    assert drawn.summary == "weights from 0.25 to 4; healthy is 1"
    assert heatmap(grid([[2.0, 2.0]])).summary == "every weight is 2"
    assert max(cell.x for cell in drawn.cells) + drawn.cell_width <= drawn.width
    assert max(cell.y for cell in drawn.cells) + drawn.cell_height <= drawn.height
