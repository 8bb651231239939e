"""Goldens from known gradients: what goes into them, and each reason to refuse."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from gradassay.goldens.errors import GoldenRefused, UsageError
from gradassay.goldens.golden import Basis, Golden
from gradassay.goldens.header import DtypeProfile
from gradassay.goldens.layout import Layout
from gradassay.goldens.record import Record
from gradassay.harness.build.assembly import Referred, assemble

FLOAT32 = DtypeProfile(parameter="float32", gradient="float32")
LAYOUTS = [Layout(dp=2), Layout(dp=4, accum=2), Layout(dp=2, accum=3), Layout(dp=4, ep=2, accum=3), Layout(accum=5)]


@pytest.fixture
def toy(make_toy: Callable[..., Any]) -> Any:
    return make_toy()


@pytest.fixture
def problem(toy: Any) -> Any:
    """The toy as the part of a problem that a golden needs."""
    return SimpleNamespace(
        name=toy.problem.name,
        digest=toy.problem.digest,
        objective=toy.objective,
        terms=(),
        units=len(toy.tokens),
        parameters=toy.parameters,
        tokens=lambda unit: toy.tokens[unit],
        experts=2,
    )


@pytest.fixture
def basis(toy: Any, make_golden: Callable[..., Golden]) -> Basis:
    return make_golden(toy).bases[1]


@pytest.fixture
def records(toy: Any, make_record: Callable[..., Record]) -> dict[str, Record]:
    return {f"{number} {layout}": make_record(toy, layout=layout, seed=number) for number, layout in enumerate(LAYOUTS)}


def _referred(records: Mapping[str, Record]) -> dict[str, Referred]:
    return {name: Referred(record=record, digest=f"sha256:{name}") for name, record in records.items()}


def test_the_header_says_what_the_golden_is_made_of(problem: Any, basis: Basis, records: dict[str, Record]) -> None:
    golden = assemble(problem, FLOAT32, basis, _referred(records))
    header = golden.header
    assert golden.name == "toy.float32"
    assert [unit.tokens for unit in header.units] == [512] * 12
    assert [(one.strategy, one.layout) for one in header.references] == [("ddp", layout) for layout in LAYOUTS]
    assert header.references[0].record == "sha256:0 dp2"
    assert header.environment == {"device": "cpu"}
    assert set(header.noise) == {"dense", "expert", "norm"}
    assert header.noise["expert"].samples == 2 * len(LAYOUTS)
    assert 0 < header.noise["expert"].q50 < header.noise["expert"].q999 < 1e-6


def test_the_noise_is_that_of_the_records(
    problem: Any, toy: Any, basis: Basis, make_record: Callable[..., Record]
) -> None:
    def floor(noise: float) -> float:
        records = {str(n): make_record(toy, layout=layout, noise=noise, seed=n) for n, layout in enumerate(LAYOUTS)}
        return assemble(problem, FLOAT32, basis, _referred(records)).header.noise["expert"].q50

    assert floor(1e-6) == pytest.approx(1e-6, rel=0.1)
    assert floor(3e-6) == pytest.approx(3e-6, rel=0.1)


def test_options_and_what_differs_is_no_environment(problem: Any, basis: Basis, records: dict[str, Record]) -> None:
    names = list(records)
    environments = [{"torch": "2.13.0", "threads": n, "options": {}} for n in range(len(names))]
    changed = {
        name: replace(record, header=replace(record.header, environment=environment))
        for (name, record), environment in zip(records.items(), environments, strict=True)
    }
    assert assemble(problem, FLOAT32, basis, _referred(changed)).header.environment == {"torch": "2.13.0"}


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ({"expert": 2.0}, "wrong: expert.* is 1 from the float64 truth"),
        ({"dense": 1.0001}, "wrong: dense.* is 0.0001 from the float64 truth, .* within 1e-05"),
        (
            {"norm": 1 + 2e-6},
            r"wrong: relative error (1\.9|2).*e-06 in family norm, where the other references allow for",
        ),
    ],
)
def test_a_wrong_reference_is_refused_however_small_its_error(
    problem: Any,
    toy: Any,
    basis: Basis,
    records: dict[str, Record],
    make_record: Callable[..., Record],
    weights: dict[str, float],
    message: str,
) -> None:
    wrong = make_record(toy, layout=Layout(dp=4, accum=2), weights=weights)
    with pytest.raises(GoldenRefused, match=message):
        assemble(problem, FLOAT32, basis, _referred({**records, "wrong": wrong}))
    healthy = make_record(toy, layout=Layout(dp=4, accum=2))
    assemble(problem, FLOAT32, basis, _referred({**records, "healthy": healthy}))


def test_a_wrong_error_in_all_references_is_refused(
    problem: Any, toy: Any, basis: Basis, make_record: Callable[..., Record]
) -> None:
    records = {
        str(n): make_record(toy, layout=layout, weights={"expert": 1.001}, seed=n) for n, layout in enumerate(LAYOUTS)
    }
    with pytest.raises(GoldenRefused, match=r"expert\.\d\.weight is 0\.001 from the float64 truth"):
        assemble(problem, FLOAT32, basis, _referred(records))


def test_a_missing_gradient_is_refused(
    problem: Any, toy: Any, basis: Basis, records: dict[str, Record], make_record: Callable[..., Record]
) -> None:
    wrong = make_record(toy, layout=Layout(dp=2), missing=["norm.0.weight"])
    with pytest.raises(GoldenRefused, match=r"wrong: norm\.0\.weight is 1 from"):
        assemble(problem, FLOAT32, basis, _referred({**records, "wrong": wrong}))


def test_copies_that_differ_are_refused(
    problem: Any, toy: Any, basis: Basis, records: dict[str, Record], make_record: Callable[..., Record]
) -> None:
    weights = np.ones((2, 2, 1))
    weights[1] *= 3.0
    wrong = make_record(toy, layout=Layout(dp=2), weights={"dense": weights}, copies=True)
    with pytest.raises(GoldenRefused, match="wrong does not agree with the golden"):
        assemble(problem, FLOAT32, basis, _referred({**records, "wrong": wrong}))


def test_not_finite_is_refused(problem: Any, basis: Basis, records: dict[str, Record]) -> None:
    name, record = next(iter(records.items()))
    capture = record.captures["reduced.1"]
    broken = replace(capture, sketch=np.full_like(capture.sketch, np.nan))
    with pytest.raises(GoldenRefused, match="is nan from the float64 truth"):
        assemble(problem, FLOAT32, basis, _referred({**records, name: replace(record, captures={"reduced.1": broken})}))
    sketch = basis.sketch.copy()
    sketch[3, 1, 7] = np.inf
    with pytest.raises(GoldenRefused, match=r"gradient of unit 3 is not finite in dense\.1\.weight"):
        assemble(problem, FLOAT32, replace(basis, sketch=sketch), _referred(records))


def test_units_that_are_alike_are_refused(
    problem: Any, make_toy: Callable[..., Any], make_golden: Callable[..., Golden], records: dict[str, Record]
) -> None:
    alike = make_golden(make_toy(common=300.0)).bases[1]
    with pytest.raises(GoldenRefused, match=r"unit gradients of family dense have condition number [\d.]+"):
        assemble(problem, FLOAT32, alike, _referred(records))


def test_a_gradient_where_the_truth_is_zero_is_refused(
    problem: Any, toy: Any, basis: Basis, records: dict[str, Record]
) -> None:
    sketch = basis.sketch.copy()
    sketch[:, 4] = 0.0
    with pytest.raises(GoldenRefused, match=r"norm\.0\.weight has a gradient, but the truth of its units is zero"):
        assemble(problem, FLOAT32, replace(basis, sketch=_zeroed(sketch)), _referred(records))


def _zeroed(sketch: np.ndarray) -> np.ndarray:
    """The sketch with a seen unit left in the family, so that its condition is finite, beyond all layouts."""
    sketch[-1, 4, :16] = np.random.default_rng(0).standard_normal(16)
    return sketch


def test_too_little_power_is_refused(problem: Any, toy: Any, basis: Basis, make_record: Callable[..., Record]) -> None:
    profile = DtypeProfile(parameter="bfloat16", gradient="bfloat16")

    def build(noise: float) -> Golden:
        records = {
            str(n): make_record(toy, layout=layout, noise=noise, seed=n, dtype="bfloat16")
            for n, layout in enumerate(LAYOUTS)
        }
        return assemble(problem, profile, basis, _referred(records))

    assert build(1e-3).name == "toy.bfloat16"
    with pytest.raises(GoldenRefused, match=r"power of family \w+ is 1\.\d+"):
        build(3e-2)


def test_a_single_reference_is_too_few(problem: Any, basis: Basis, records: dict[str, Record]) -> None:
    with pytest.raises(UsageError, match="1 reference runs are too few"):
        assemble(problem, FLOAT32, basis, _referred(dict(list(records.items())[:1])))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"problem": SimpleNamespace(name="toy", digest="sha256:0")}, "other problem"),
        ({"dtype": DtypeProfile(parameter="bfloat16")}, "other dtype profile"),
        ({"parameters": ()}, r"other parameters than the golden: \[\], not \[\('dense"),
        ({"layout": Layout(dp=13)}, "has 13 units, the golden 12"),
    ],
)
def test_references_of_something_else_are_refused(
    problem: Any, basis: Basis, records: dict[str, Record], change: dict[str, Any], message: str
) -> None:
    name, record = next(iter(records.items()))
    other = replace(record, header=replace(record.header, **change))
    with pytest.raises(GoldenRefused, match=message):
        assemble(problem, FLOAT32, basis, _referred({**records, name: other}))
