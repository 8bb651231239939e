"""Averages that are taken after every micro-batch multiply by a reciprocal that is rounded, and so by not quite 1."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gradassay.goldens.assay.compare import assay_record
from gradassay.goldens.assay.records import assay_records
from gradassay.goldens.errors import Exit
from gradassay.goldens.layout import Layout

ROUNDING = 1e-8
THREE, FOUR = Layout(dp=3, accum=8), Layout(dp=4, accum=6)


@pytest.fixture(scope="module")
def toy(make_toy: Any) -> Any:
    return make_toy(families={"dense": [(256, 128)] * 4, "norm": [(128,)]}, units=24)


@pytest.fixture(scope="module")
def golden(toy: Any, make_golden: Any) -> Any:
    return make_golden(toy, noise=ROUNDING)


def compounded(layout: Layout, each: float, dtype: type = np.float32) -> dict[str, Any]:
    """Weights [dp, accum] of units whose sum is multiplied by `each` once a micro-batch."""
    weights = np.array([each ** (layout.accum - micro) for micro in range(layout.accum)])
    return {family: np.broadcast_to(weights, (layout.dp, layout.accum)) for family in ("dense", "norm")}


def test_a_third_that_is_rounded_again_and_again_is_honest(toy: Any, golden: Any, make_record: Any) -> None:
    each = 3 * float(np.float32(1) / np.float32(3))
    assert each - 1 == pytest.approx(2.98e-8, rel=0.01)
    record = make_record(toy, layout=THREE, weights=compounded(THREE, each), noise=ROUNDING)
    assert assay_record(record, golden).exit is Exit.AGREE
    once = make_record(toy, layout=THREE, noise=ROUNDING)
    assert assay_records(once, record).exit is Exit.AGREE


def test_a_quarter_is_not_rounded(toy: Any, golden: Any, make_record: Any) -> None:
    record = make_record(toy, layout=FOUR, weights=compounded(FOUR, 1 + 2.98e-8), noise=ROUNDING)
    assert assay_record(record, golden).exit is Exit.DIVERGE


@pytest.mark.parametrize("layout", [THREE, FOUR])
@pytest.mark.parametrize("factor", [1.00001, 0.99999])
def test_what_is_to_be_seen_is_seen(toy: Any, golden: Any, make_record: Any, layout: Layout, factor: float) -> None:
    record = make_record(toy, layout=layout, weights={"dense": factor}, noise=ROUNDING)
    assert assay_record(record, golden).exit is Exit.DIVERGE
    last = np.ones((layout.dp, layout.accum))
    last[:, -1] = 1 + 8 * (factor - 1)
    record = make_record(toy, layout=layout, weights={"dense": last}, noise=ROUNDING)
    assert assay_record(record, golden).exit is Exit.DIVERGE
