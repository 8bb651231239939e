"""The builders themselves: what they write can be read, and holds the weights it was asked for."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from gradassay.goldens.golden import read_golden
from gradassay.goldens.layout import Layout
from gradassay.goldens.record import read_record


@pytest.mark.parametrize("objective", ["unit-mean", "token-mean"])
def test_record_is_the_weighted_sum_of_the_golden(
    make_toy, make_golden, make_record, tmp_path: Path, objective: str
) -> None:
    toy = make_toy(objective=objective, tokens=range(100, 112), terms=("main", "aux"))
    layout = Layout(dp=4, accum=3)
    weights = np.arange(12.0).reshape(4, 3)
    make_golden(toy).write(tmp_path / "golden.safetensors")
    make_record(toy, layout=layout, weights={"expert": weights}, noise=0.0, full=True).write(
        tmp_path / "record.safetensors", sketch_dtype=np.float64
    )
    golden = read_golden(tmp_path / "golden.safetensors")
    capture = read_record(tmp_path / "record.safetensors").captures["reduced.1"]
    by_unit = np.array([weights[layout_rank, micro] for micro in range(3) for layout_rank in range(4)])
    for row, parameter in enumerate(golden.header.parameters):
        weight = by_unit if parameter.family == "expert" else 1.0
        expected = (golden.true_coefficients(12) * weight) @ golden.bases[1].sketch[:, row]
        np.testing.assert_allclose(capture.sketch[row], expected, rtol=1e-9, atol=1e-12)
    assert capture.full is not None
    assert golden.header.terms == ("main", "aux")


def test_owners_and_copies_are_kept_apart(make_record) -> None:
    weights = np.ones((4, 4, 3))
    weights[2] = 0.0
    sharded = make_record(weights={"dense": weights}, sharded=True, full=True, noise=0.0)
    values = sharded.captures["reduced.1"].full["dense.0.weight"].ravel()
    assert sharded.header.parameters[0].shards[2] == (2, 192, 288)
    assert not values[192:288].any()
    assert values[:192].all()
    copies = make_record(weights={"dense": weights}, copies=True).captures["reduced.1"].rank_sketch
    assert copies.shape == (4, 5, 1024)
    assert not copies[2, 0].any()
    assert copies[1, 0].any()
