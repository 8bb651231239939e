"""docs/goldens.md says the limits that the code has."""

from __future__ import annotations

from pathlib import Path

from gradassay.goldens.assay.noise import LEAST_POWER
from gradassay.harness.build.checks import LARGEST_CONDITION, LARGEST_ERROR, LARGEST_EXCESS


def test_limits_are_documented() -> None:
    page = (Path(__file__).parents[3] / "docs/goldens.md").read_text()
    for dtype, limit in LARGEST_ERROR.items():
        assert f"{limit:g} in {dtype}" in page
    assert f"condition number {LARGEST_CONDITION:g}" in page
    assert f"{LARGEST_EXCESS:g} times their 99.9 % quantile" in page
    assert f"a factor of {LEAST_POWER:g}" in page
