"""What must hold of every assay, whatever the problem."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from foreign import Stranger, draw_sizes
from foreign_faults import flat
from gradassay.goldens.assay.compare import assay_record
from gradassay.goldens.assay.result import Assay, Verdict
from gradassay.goldens.golden import read_golden
from gradassay.goldens.record import read_record

SEEDS = range(6)


@pytest.fixture(scope="module")
def assayed(tmp_path_factory: pytest.TempPathFactory) -> Callable[[bytes, bytes], Assay]:
    folder: Path = tmp_path_factory.mktemp("pairs")

    def assay(golden: bytes, record: bytes) -> Assay:
        (folder / "golden").write_bytes(golden)
        (folder / "record").write_bytes(record)
        return assay_record(read_record(folder / "record"), read_golden(folder / "golden"))

    return assay


def told(assay: Assay) -> set[tuple[Any, ...]]:
    """Who diverges and how, without any order."""
    return {
        (frozenset(finding.parameters), finding.law.pattern, finding.law.formula, finding.law.ties)
        for finding in assay.findings
    }


@settings(max_examples=40, deadline=None)
@given(exponent=st.floats(min_value=-12, max_value=12).filter(lambda power: abs(power) > 1e-4))
def test_a_factor_is_read_off(exponent: float, assayed: Callable[[bytes, bytes], Assay]) -> None:
    factor = 2.0**exponent
    stranger = Stranger(5, dtype="float32", units=12, common=0.5)
    sizes = draw_sizes(np.random.default_rng(3), wants="dp", most=12)
    name = stranger.names("dense")[0]
    assay = assayed(stranger.golden(), stranger.record(sizes, {name: flat(sizes, factor)}))
    (finding,) = assay.findings
    assert finding.parameters == (name,)
    assert finding.law.pattern == "uniform"
    assert finding.law.value == pytest.approx(factor, rel=2e-5)
    assert np.array(finding.weights) == pytest.approx(factor, rel=1e-4)


@pytest.mark.parametrize("seed", SEEDS)
def test_the_order_of_parameters_changes_nothing(seed: int, assayed: Callable[[bytes, bytes], Assay]) -> None:
    assays = []
    shuffled = np.random.default_rng(seed).permutation(len(Stranger(seed, dtype="float32").parameters)).tolist()
    for order in (None, shuffled):
        stranger = Stranger(seed, dtype="float32")
        sizes = draw_sizes(stranger.random, wants="ep accum")
        weights = {name: flat(sizes, sizes.ep) for name in stranger.names("expert")}
        assays.append(assayed(stranger.golden(), stranger.record(sizes, weights, order=order, float64=True)))
    first, second = assays
    assert first.verdict is second.verdict is Verdict.DIVERGE
    assert told(first) == told(second)
    assert first.power == pytest.approx(second.power)


@pytest.mark.parametrize("seed", SEEDS)
def test_units_beyond_the_layout_change_nothing(seed: int, assayed: Callable[[bytes, bytes], Assay]) -> None:
    stranger = Stranger(seed, dtype="float32", objective="token-mean")
    sizes = draw_sizes(stranger.random, wants="dp accum", most=12)
    record = stranger.record(sizes, {name: flat(sizes, 3.0) for name in stranger.names("dense")})
    whole = assayed(stranger.golden(), record)
    stranger.units, stranger.tokens = sizes.units, stranger.tokens[: sizes.units]
    stranger.gradients = {key: values[: sizes.units] for key, values in stranger.gradients.items()}
    least = assayed(stranger.golden(), record)
    assert told(whole) == told(least)
    assert whole.parameters == least.parameters


@pytest.mark.parametrize("seed", SEEDS)
def test_the_dtype_of_sketches_does_not_matter(seed: int, assayed: Callable[[bytes, bytes], Assay]) -> None:
    found = []
    for float64 in (False, True):
        stranger = Stranger(seed, dtype="float32", smallest=16)
        sizes = draw_sizes(stranger.random, wants="dp accum")
        weights = {name: flat(sizes) * (np.arange(sizes.accum) + 1) for name in stranger.names("expert", "dense")}
        found.append(assayed(stranger.golden(), stranger.record(sizes, weights, float64=float64)))
    assert told(found[0]) == told(found[1])


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 10**6), level=st.floats(0.0, 1.0), owners=st.sampled_from(["", "shards", "copies"]))
def test_rounding_below_the_floor_never_diverges(
    seed: int, level: float, owners: str, assayed: Callable[[bytes, bytes], Assay]
) -> None:
    stranger = Stranger(seed % 50, units=12)
    stranger.random = np.random.default_rng([seed, 1])
    record = stranger.record(draw_sizes(stranger.random, most=12), owners=owners, rounding=level)
    assert assayed(stranger.golden(), record).verdict in (Verdict.AGREE, Verdict.INCONCLUSIVE)


@pytest.mark.parametrize("seed", SEEDS)
def test_an_assay_is_a_function_of_its_files(seed: int, assayed: Callable[[bytes, bytes], Assay]) -> None:
    stranger = Stranger(seed)
    sizes = draw_sizes(stranger.random, wants="dp accum")
    weights = stranger.random.uniform(0.5, 2, (sizes.dp, sizes.accum))
    golden, record = stranger.golden(), stranger.record(sizes, dict.fromkeys(stranger.names("dense"), weights))
    assert assayed(golden, record) == assayed(golden, record)


def test_the_seed_of_a_stranger_matters() -> None:
    """Negative control of the generator: other seeds make other files."""
    assert Stranger(1).golden() != Stranger(2).golden()
    assert Stranger(1).golden() == Stranger(1).golden()
