"""Sketch spec v1: the published vectors, shards that add up, and inputs that must be refused."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gradassay.goldens.kernel import elements
from gradassay.goldens.sketch import measure, measure_runs, segment_elements, sketch, sketch_runs

VECTORS = json.loads((Path(__file__).parent / "data" / "sketch-vectors.json").read_text())


def values_of(case: dict[str, Any]) -> np.ndarray:
    index = np.arange(np.prod(case["shape"]), dtype=np.int64)
    return (((index * case["a"] + case["b"]) % 257) - 128) / 16


def bfloat16_bits(values: np.ndarray) -> np.ndarray:
    return (values.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)


@pytest.mark.parametrize("number", VECTORS["mix"])
def test_mix(number: str) -> None:
    assert int(elements.mix(np.uint64(int(number)))) == int(VECTORS["mix"][number], 16)


@pytest.mark.parametrize("case", VECTORS["cases"], ids=lambda case: "x".join(map(str, case["shape"])))
@pytest.mark.parametrize("kind", ["float32", "float64", "bfloat16"])
def test_vectors(case: dict[str, Any], kind: str) -> None:
    values = values_of(case)
    stored = bfloat16_bits(values) if kind == "bfloat16" else values.astype(kind)
    result = measure(stored)
    assert result.sketch[:8].tolist() == case["first8"]
    assert result.sketch[-8:].tolist() == case["last8"]
    assert {int(at): result.sketch[int(at)] for at in case["at"]} == {int(at): v for at, v in case["at"].items()}
    assert result.sketch.sum() == case["sum"]
    assert result.sketch @ result.sketch == case["norm2"]
    assert result.norm2 == pytest.approx(values @ values, rel=1e-12)
    assert result.absmax == np.abs(values).max()
    assert result.nonfinite == 0


@given(
    total=st.integers(1, 5000), cuts=st.lists(st.floats(0, 1), max_size=5), kind=st.sampled_from(["float32", "float64"])
)
@settings(deadline=None, max_examples=60)
def test_shards_add_up(total: int, cuts: list[float], kind: str) -> None:
    values = np.random.default_rng(total).integers(-64, 64, total).astype(kind)
    bounds = [0, *sorted(int(cut * total) for cut in cuts), total]
    parts = sum(sketch(values[a:b], a, total) for a, b in pairwise(bounds))
    assert np.array_equal(parts, sketch(values))


@given(rows=st.integers(1, 90), columns=st.integers(1, 90), ranks=st.integers(1, 5))
@settings(deadline=None, max_examples=40)
def test_column_shards_add_up(rows: int, columns: int, ranks: int) -> None:
    values = np.random.default_rng(rows).integers(-64, 64, (rows, columns)).astype(np.float32)
    total = np.zeros(1024)
    for part in np.array_split(np.arange(columns), ranks):
        runs = np.array([[row * columns + part[0], len(part)] for row in range(rows)] if len(part) else [])
        total += sketch_runs(values[:, part].ravel(), runs.reshape(-1, 2).astype(np.int64), values.size)
    assert np.array_equal(total, sketch(values.ravel()))


def exactly(values: np.ndarray, runs: np.ndarray, total: int) -> np.ndarray:
    """The sketch [1024] of a parameter of more than 1024 elements, element by element in float64."""
    bounds, found, before = segment_elements(total), np.zeros((16, 64)), 0
    for first, length in runs.tolist():
        for element in range(first, first + length):
            value = float(values[before + element - first])
            if np.isfinite(value):
                negative = int(elements.mix(np.uint64(elements.SEED + (element >> 6)))) >> (element & 63) & 1
                segment = int(np.searchsorted(bounds, element, side="right")) - 1
                found[segment, element & 63] += -value if negative else value
        before += length
    return found.reshape(-1)


@given(
    total=st.integers(1025, 9000),
    cuts=st.lists(st.floats(0, 1), max_size=6),
    order=st.randoms(use_true_random=False),
    kind=st.sampled_from(["float32", "float64", "bfloat16"]),
    spikes=st.lists(
        st.tuples(st.floats(0, 1), st.sampled_from([np.nan, np.inf, -np.inf, 3e38, -3e38, 1e-30, 0.0])), max_size=6
    ),
    scale=st.sampled_from([1.0, 1e-20, 1e25, 0.0]),
)
@settings(deadline=None, max_examples=60)
def test_runs_in_any_order_give_what_elements_do(
    total: int, cuts: list[float], order: Any, kind: str, spikes: list[tuple[float, float]], scale: float
) -> None:
    whole = (scale * np.random.default_rng(total).standard_normal(total)).astype(np.float32)
    for place, value in spikes:
        whole[int(place * (total - 1))] = value
    if kind == "bfloat16":
        whole = (bfloat16_bits(whole).astype(np.uint32) << 16).view(np.float32)
    bounds = [0, *sorted(int(cut * total) for cut in cuts), total]
    runs = [[first, end - first] for first, end in pairwise(bounds)]
    order.shuffle(runs)
    values = np.concatenate([whole[first : first + length] for first, length in runs])
    stored = bfloat16_bits(values) if kind == "bfloat16" else values.astype(kind)
    found = measure_runs(stored, np.array(runs), total)
    finite = np.where(np.isfinite(values), values, 0.0).astype(np.float64)
    # What is added up in a bucket may cancel, but no more is lost than float32 loses of the sum of its magnitudes.
    lost = 1e-6 * np.sqrt(total) * np.abs(finite).max()
    assert np.allclose(found.sketch, exactly(values, np.array(runs), total), rtol=0, atol=lost)
    assert found.norm2 == pytest.approx(finite @ finite, rel=1e-6, abs=1e-300)
    assert found.absmax == np.abs(finite).max()
    assert found.nonfinite == np.count_nonzero(~np.isfinite(values))


@pytest.mark.parametrize("step", [2, -1])
def test_values_may_be_strided(step: int) -> None:
    values = np.random.default_rng(0).standard_normal(9000).astype(np.float32)[::step]
    assert np.array_equal(sketch(values), sketch(values.copy()))


def test_compiled_code_is_of_these_sources(tmp_path: Path) -> None:
    script = """
import numpy as np
from gradassay.goldens.kernel.segments import _for_all

for sources in (1, 2, 1):
    kernel = _for_all(sources)
    kernel(np.zeros(2048), np.array([[0, 2048]]), 2048, np.zeros(1024), np.zeros(3))
    print(sum(kernel.stats.cache_hits.values()))
"""
    done = subprocess.run(
        [sys.executable, "-c", script],
        env=os.environ | {"NUMBA_CACHE_DIR": str(tmp_path)},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    assert done.stdout.split() == ["0", "0", "1"]


def test_sketch_is_linear_and_keeps_norms() -> None:
    generator = np.random.default_rng(0)
    one, two = generator.standard_normal((2, 200_000))
    assert np.allclose(sketch(3 * one - two), 3 * sketch(one) - sketch(two), atol=1e-9)
    norms = [np.sum(sketch(generator.standard_normal(20_000)) ** 2) / 20_000 for _ in range(50)]
    assert np.std(norms) < 2 * np.sqrt(2 / 1024)
    assert abs(np.mean(norms) - 1) < 0.05


@pytest.mark.parametrize("total", [7, 1024, 1025, 64_000])
def test_non_finite_elements_are_counted_and_poison_nothing(total: int) -> None:
    values = np.random.default_rng(1).standard_normal(total)
    broken = values.copy()
    broken[[0, total // 2, total - 1]] = [np.nan, np.inf, -np.inf]
    zeroed = np.where(np.isfinite(broken), broken, 0.0)
    result = measure(broken)
    assert result.nonfinite == 3
    assert np.allclose(result.sketch, sketch(zeroed))
    assert result.norm2 == pytest.approx(zeroed @ zeroed)
    assert not np.allclose(result.sketch, sketch(values))


@pytest.mark.parametrize("total", [100, 1024, 1025, 100_000])
def test_segments_cover_a_parameter(total: int) -> None:
    bounds = segment_elements(total)
    assert bounds[0] == 0
    assert bounds[-1] == total
    values = np.zeros(total, dtype=np.float32)
    values[bounds[3] : bounds[4]] = 1.0
    touched = np.flatnonzero(sketch(values))
    assert len(touched) == 0 or (touched.min() >= 3 * 64 and touched.max() < 4 * 64)


@pytest.mark.parametrize(
    ("values", "runs", "total", "message"),
    [
        (np.zeros((2, 2)), [[0, 4]], 4, "1-D"),
        (np.zeros(4, dtype=np.int32), [[0, 4]], 4, "int32"),
        (np.zeros(4), [[2, 4]], 5, "outside"),
        (np.zeros(4), [[0, 3]], 5, "4 values"),
    ],
)
def test_what_does_not_fit_is_refused(values: np.ndarray, runs: list[list[int]], total: int, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        measure_runs(values, np.array(runs), total)
