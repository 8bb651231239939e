"""The drift of proposed versions: computed once, kept, and brought up to date."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from builders import make_golden
from gradassay.api.judging.refresh import ensure_drift, without_drift
from gradassay.goldens.errors import StoreError
from gradassay.goldens.golden import Basis, Golden
from judged import Bench

NAME = "toy.float32"


def changed(golden: Golden, *, torch: str, rounding: float = 0.0, factor: float = 1.0) -> Golden:
    """The golden as another torch release captures it."""
    sketch = golden.bases[1].sketch * factor
    sketch = sketch * (1 + rounding * np.random.default_rng(1).standard_normal(sketch.shape))
    return replace(
        golden,
        header=replace(golden.header, environment={"torch": torch}),
        bases={1: Basis(sketch=sketch, norm2=np.square(sketch).sum(axis=2))},
    )


@pytest.fixture
def golden(bench: Bench) -> Golden:
    """What torch 2.12 gives."""
    return changed(make_golden(bench.toy), torch="2.12")


def drift(bench: Bench, version: int) -> dict:
    """The drift of a version, as it is kept."""
    found = ensure_drift(bench.database, bench.store, NAME, version)
    assert found is not None
    assert bench.ledger.version(NAME, version).drift == found
    return found


def test_rounding_and_structured_change_are_told_apart(bench: Bench, golden: Golden):
    bench.approve(bench.golden(golden))
    rounded = bench.golden(changed(golden, torch="2.13", rounding=1e-14))
    scaled = bench.golden(changed(golden, torch="2.13", factor=2.0))
    assert without_drift(bench.database) == [(NAME, rounded), (NAME, scaled)]
    found = drift(bench, rounded)
    assert (found["against"], found["kind"], found["cause"]) == (1, "rounding", "torch 2.12 -> 2.13")
    found = drift(bench, scaled)
    assert (found["kind"], found["cause"]) == ("structured", "")
    assert "2 of 2 expert parameters are scaled by 2 in every unit" in found["sentence"]
    assert without_drift(bench.database) == []


def test_first_version_has_nothing_to_differ_from(bench: Bench, golden: Golden):
    version = bench.golden(golden)
    assert ensure_drift(bench.database, bench.store, NAME, version) is None
    assert without_drift(bench.database) == []
    bench.approve(version)
    assert ensure_drift(bench.database, bench.store, NAME, version) is None
    assert ensure_drift(bench.database, bench.store, NAME, 99) is None


def test_drift_follows_what_is_approved_until_the_version_is_decided_about(bench: Bench, golden: Golden):
    bench.approve(bench.golden(golden))
    second = bench.golden(changed(golden, torch="2.13", rounding=1e-14))
    waiting = bench.golden(changed(golden, torch="2.14", rounding=2e-14))
    assert drift(bench, second)["against"] == drift(bench, waiting)["against"] == 1
    bench.approve(second)
    assert without_drift(bench.database) == [(NAME, waiting)]
    assert drift(bench, waiting)["cause"] == "torch 2.13 -> 2.14"
    assert drift(bench, second)["against"] == 1


def test_damaged_file_is_an_error_and_no_drift(bench: Bench, golden: Golden):
    bench.approve(bench.golden(golden))
    version = bench.golden(changed(golden, torch="2.13", rounding=1e-14))
    bench.store.golden_path(NAME, version).write_bytes(b"damaged")
    with pytest.raises(StoreError, match="damaged"):
        ensure_drift(bench.database, bench.store, NAME, version)
    assert bench.ledger.version(NAME, version).drift is None
