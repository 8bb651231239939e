"""How numbers are printed."""

from __future__ import annotations

import pytest

from gradassay.goldens.report import numbers


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (2.0, "2"),
        (0.25, "0.25"),
        (0.99999998, "1"),
        (1.001, "1.001"),
        (0.0, "0"),
        (-0.0, "0"),
        (-4.0, "-4"),
        (1 / 3, "0.3333"),
        (65536.0, "65540"),
        (2.0**-16, "1.5e-5"),
        (1e-12, "1e-12"),
        (float("nan"), "nan"),
        (None, "—"),
    ],
)
def test_factor(value: float | None, text: str) -> None:
    assert numbers.factor(value) == text


def test_errors_are_plain_where_they_are_large_and_scientific_where_they_are_small() -> None:
    assert numbers.error(0.0113) == "0.011"
    assert numbers.error(2.04e-7) == "2e-7"
    assert numbers.error(2.14e-7) == "2.1e-7"
    assert numbers.error(float("inf")) == "inf"


def test_power_never_prints_as_one() -> None:
    assert numbers.power(1.0000052) == "1.0000052"
    assert numbers.power(1.00001) == "1.000010"
    assert numbers.power(1.019) == "1.019"
    assert numbers.power(float("inf")) == "inf"
