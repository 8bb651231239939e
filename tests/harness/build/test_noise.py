"""Distances of records from the truth, and the quantiles that become noise floors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from gradassay.goldens.golden import Golden
from gradassay.goldens.layout import Layout
from gradassay.goldens.record import Record
from gradassay.harness.build.noise import Distances, distances, noise_floors


def test_error_and_scale_of_a_record(
    make_toy: Callable[..., Any], make_golden: Callable[..., Golden], make_record: Callable[..., Record]
) -> None:
    toy = make_toy()
    golden, layout = make_golden(toy), Layout(dp=4, accum=2)
    record = make_record(toy, layout=layout, weights={"expert": 1.5}, noise=1e-4)
    found = distances(record, golden.bases[1], toy.parameters, golden.true_coefficients(layout.units))
    assert found.names == tuple(parameter.name for parameter in toy.parameters)
    experts = [index for index, family in enumerate(found.families) if family == "expert"]
    assert found.error[experts] == pytest.approx(0.5, rel=1e-3)
    assert found.scale[experts] == pytest.approx(0.5, rel=1e-3)
    others = [index for index in range(len(found.names)) if index not in experts]
    assert found.error[others] == pytest.approx(1e-4, rel=0.5)
    assert (found.scale[others] < found.error[others]).all()
    assert found.families[found.worst()] == "expert"


def test_parameters_that_no_unit_reaches_are_no_samples(
    make_toy: Callable[..., Any], make_golden: Callable[..., Golden], make_record: Callable[..., Record]
) -> None:
    toy = make_toy(idle={"expert.0.weight": range(4)})
    golden = make_golden(toy)
    few, more = (
        distances(make_record(toy, layout=Layout(dp=dp)), golden.bases[1], toy.parameters, golden.true_coefficients(dp))
        for dp in (4, 5)
    )
    assert "expert.0.weight" not in few.names
    assert few.astray == ()
    assert "expert.0.weight" in more.names


def test_floors_are_quantiles_by_family() -> None:
    count = 2000
    error = np.arange(1, count + 1) / count
    sample = Distances(
        names=tuple(map(str, range(count))), families=("a",) * count, error=error, scale=error[::-1] / 10
    )
    few = Distances(names=("x", "y"), families=("b", "a"), error=np.array([7.0, 1e-9]), scale=np.array([3.0, 0.0]))
    floors = noise_floors([sample, few])
    assert floors["a"].samples == count + 1
    assert floors["a"].q50 == pytest.approx(0.5, abs=1e-3)
    assert floors["a"].q999 == pytest.approx(0.999, abs=1e-3)
    assert floors["a"].scale == pytest.approx(0.0999, abs=1e-4)
    assert (floors["b"].q50, floors["b"].q999, floors["b"].scale, floors["b"].samples) == (7.0, 7.0, 3.0, 1)
