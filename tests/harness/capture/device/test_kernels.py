"""The kernels of GPUs meet the published vectors, and agree with those of CPUs within float32."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gradassay.goldens.sketch import Measurement, measure_runs

pytestmark = [pytest.mark.triton, pytest.mark.usefixtures("interpreted")]

Measure = Callable[..., Measurement]
VECTORS = json.loads((Path(__file__).parents[3] / "goldens" / "data" / "sketch-vectors.json").read_text())
KINDS = [torch.float32, torch.bfloat16, torch.float16, torch.float64]
# Triton's interpreter takes milliseconds for what a GPU does in a moment.
LARGE = 10_000
FEW = settings(deadline=None, max_examples=4, suppress_health_check=[HealthCheck.function_scoped_fixture])


def slow_unless(quick: bool) -> list[pytest.MarkDecorator]:
    return [] if quick else [pytest.mark.slow]


def name_of(case: dict[str, Any]) -> str:
    return "x".join(map(str, case["shape"]))


def values_of(case: dict[str, Any]) -> np.ndarray:
    index = np.arange(np.prod(case["shape"]), dtype=np.int64)
    return (((index * case["a"] + case["b"]) % 257) - 128) / 16


def assert_same(found: Measurement, values: torch.Tensor, runs: np.ndarray, total: int) -> None:
    """Against the kernel of CPUs, in float64: sums of eight float32 have a relative error of 3 x 2**-24 at most."""
    exact = measure_runs(values.double().numpy(), runs, total)
    sizes = measure_runs(values.double().abs().numpy(), runs, total)
    bound = 1e-14 if values.dtype == torch.float64 else 3 * 2.0**-24
    # No bucket of magnitudes is larger than this, whatever their signs.
    largest = bound * (sizes.norm2 * (1 + len(values) // 64)) ** 0.5
    assert np.abs(found.sketch - exact.sketch).max() <= largest
    assert found.norm2 == pytest.approx(exact.norm2, rel=max(bound, 1e-13) * 3)
    assert found.absmax == exact.absmax
    assert found.nonfinite == exact.nonfinite


@pytest.mark.parametrize("number", VECTORS["mix"])
def test_mix(number: str) -> None:
    import triton
    import triton.language as tl

    from gradassay.harness.capture.device.signs import mix

    def mix_one(values: Any) -> None:
        tl.store(values, mix(tl.load(values).to(tl.uint64, bitcast=True)).to(tl.int64, bitcast=True))

    values = torch.tensor([int(number)], dtype=torch.int64)
    mix_one.__globals__.update(tl=tl, mix=mix)
    triton.jit(mix_one)[(1,)](values)
    assert values.item() % 2**64 == int(VECTORS["mix"][number], 16)


@pytest.mark.parametrize(
    ("case", "kind"),
    [
        pytest.param(
            case,
            kind,
            id=f"{name_of(case)}-{kind}",
            marks=slow_unless(np.prod(case["shape"]) < LARGE or kind == torch.bfloat16),
        )
        for case in VECTORS["cases"]
        for kind in KINDS
    ],
)
def test_vectors(case: dict[str, Any], kind: torch.dtype, measure_there: Measure) -> None:
    values = values_of(case)
    result = measure_there(torch.from_numpy(values).to(kind))
    assert result.sketch[:8].tolist() == case["first8"]
    assert result.sketch[-8:].tolist() == case["last8"]
    assert {int(at): result.sketch[int(at)] for at in case["at"]} == {int(at): v for at, v in case["at"].items()}
    assert result.sketch.sum() == case["sum"]
    assert result.sketch @ result.sketch == case["norm2"]
    assert result.norm2 == pytest.approx(values @ values, rel=1e-12)
    assert result.absmax == np.abs(values).max()
    assert result.nonfinite == 0


@given(total=st.integers(1, 5000), cuts=st.lists(st.floats(0, 1), max_size=3), kind=st.sampled_from(KINDS))
@FEW
def test_shards_add_up(total: int, cuts: list[float], kind: torch.dtype, measure_there: Measure) -> None:
    values = torch.from_numpy(np.random.default_rng(total).integers(-64, 64, total)).to(kind)
    bounds = [0, *sorted(int(cut * total) for cut in cuts), total]
    parts = sum(measure_there(values[a:b], np.array([[a, b - a]]), total).sketch for a, b in pairwise(bounds))
    whole = np.array([[0, total]])
    assert np.array_equal(parts, measure_runs(values.double().numpy(), whole, total).sketch)


@given(rows=st.integers(1, 30), columns=st.integers(1, 150), ranks=st.integers(1, 3), kind=st.sampled_from(KINDS))
@FEW
def test_column_shards_add_up(rows: int, columns: int, ranks: int, kind: torch.dtype, measure_there: Measure) -> None:
    values = torch.from_numpy(np.random.default_rng(rows).integers(-64, 64, (rows, columns))).to(kind)
    total = np.zeros(1024)
    for part in np.array_split(np.arange(columns), ranks):
        runs = np.array([[row * columns + part[0], len(part)] for row in range(rows)] if len(part) else [], dtype=int)
        total += measure_there(values[:, part].reshape(-1), runs.reshape(-1, 2), values.numel()).sketch
    assert np.array_equal(
        total, measure_runs(values.double().reshape(-1).numpy(), np.array([[0, values.numel()]]), values.numel()).sketch
    )


@given(
    data=st.data(), total=st.integers(1, 12_000), kind=st.sampled_from(KINDS), scale=st.sampled_from([1e-6, 1.0, 50.0])
)
@FEW
def test_random_runs_agree_with_the_kernel_of_cpus(
    data: st.DataObject, total: int, kind: torch.dtype, scale: float, measure_there: Measure
) -> None:
    cuts = sorted(data.draw(st.sets(st.integers(0, total), min_size=2, max_size=9)))
    runs = np.array([[a, b - a] for a, b in zip(cuts[::2], cuts[1::2], strict=False)])
    runs = runs[data.draw(st.permutations(range(len(runs))))]
    generator = torch.Generator().manual_seed(total)
    values = (scale * torch.randn(int(runs[:, 1].sum()), generator=generator, dtype=torch.float64)).to(kind)
    assert_same(measure_there(values, runs, total), values, runs, total)


@pytest.mark.parametrize(
    "kind", [pytest.param(kind, id=str(kind), marks=slow_unless(kind == torch.float32)) for kind in KINDS]
)
def test_several_programs_of_a_segment_agree_with_the_kernel_of_cpus(kind: torch.dtype, measure_there: Measure) -> None:
    """A stretch that begins within a row, of whole blocks, rows beside them and a part of a row at the end."""
    total, runs = 16 * 64 * 700, np.array([[777, 170_003]])
    values = torch.randn(170_003, generator=torch.Generator().manual_seed(1)).to(kind)
    assert_same(measure_there(values, runs, total), values, runs, total)


def test_the_same_shard_gives_the_same_bits(measure_there: Measure) -> None:
    values = torch.randn(5_000, generator=torch.Generator().manual_seed(1))
    one, two = measure_there(values), measure_there(values)
    assert np.array_equal(one.sketch, two.sketch)
    assert one.norm2 == two.norm2


def test_runs_of_long_stretches_agree_with_the_kernel_of_cpus(measure_there: Measure) -> None:
    runs = np.array([[8, 40_000], [300_000, 60_000], [100_000, 24_008]])
    values = torch.randn(int(runs[:, 1].sum()), generator=torch.Generator().manual_seed(1)).bfloat16()
    assert_same(measure_there(values, runs, 400_000), values, runs, 400_000)


@pytest.mark.parametrize("kind", KINDS, ids=str)
@pytest.mark.parametrize("total", [7, 1024, 2_000])
def test_non_finite_elements_are_counted_and_poison_nothing(
    total: int, kind: torch.dtype, measure_there: Measure
) -> None:
    values = torch.randn(total, generator=torch.Generator().manual_seed(1)).to(kind)
    values[[0, total // 2, total - 1]] = torch.tensor([torch.nan, torch.inf, -torch.inf], dtype=kind)
    found = measure_there(values)
    assert_same(found, values, np.array([[0, total]]), total)
    assert found.nonfinite == 3


@pytest.mark.filterwarnings("ignore:overflow encountered:RuntimeWarning")
@pytest.mark.parametrize("size", [3e38, 1e20, 1e-20, 1e-42])
def test_float32_at_its_ends_is_added_in_float64(size: float, measure_there: Measure) -> None:
    values = (torch.rand(3_000, generator=torch.Generator().manual_seed(1)) * size).float()
    values[:100] = size
    found, runs = measure_there(values), np.array([[0, 3_000]])
    exact = measure_runs(values.double().numpy(), runs, 3_000)
    assert np.allclose(found.sketch, exact.sketch, rtol=1e-12, atol=0)
    assert found.norm2 == pytest.approx(exact.norm2, rel=1e-12, abs=0)
    assert found.absmax == exact.absmax


def test_zeros_are_zeros(measure_there: Measure) -> None:
    found = measure_there(torch.zeros(5000, dtype=torch.bfloat16))
    assert not found.sketch.any()
    assert (found.norm2, found.absmax, found.nonfinite) == (0, 0, 0)


def test_values_may_be_strided_and_of_another_type(measure_there: Measure) -> None:
    strided = torch.arange(3000).repeat_interleave(2).reshape(-1, 2).T[0]
    assert not strided.is_contiguous()
    assert_same(measure_there(strided), strided.float(), np.array([[0, 3000]]), 3000)
