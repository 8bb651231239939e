"""The difference of two goldens: rounding is told apart from whatever somebody changed."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from builders import Toy
from gradassay.goldens.assay.drift import UNCHANGED, Drift, DriftKind, assay_drift, changed_environment, suspected_cause
from gradassay.goldens.golden import Basis, Golden
from gradassay.goldens.header import NoiseFloor, SecondStep, Update

OLD = {"torch": "2.12.0", "cuda": "12.8", "python": "3.11.2", "device": "cuda"}
NEW = {"torch": "2.13.0", "cuda": "13.0", "python": "3.11.9", "device": "cuda"}


@pytest.fixture
def golden(make_toy: Callable[..., Toy], make_golden: Callable[..., Golden]) -> Golden:
    """Two families over twelve units, captured with torch 2.12."""
    made = make_golden(make_toy(families={"dense": [(24, 16), (48,)], "expert": [(40, 36), (40, 36), (7,)]}))
    return replace(made, header=replace(made.header, environment=OLD))


def again(golden: Golden, change: Callable[[np.ndarray], np.ndarray] | None = None, **header: Any) -> Golden:
    """The golden with its basis [U, P, 1024] changed, its sums of squares with it, and other facts."""
    sketch = golden.bases[1].sketch.copy()
    changed = sketch if change is None else change(sketch)
    old, new = (np.square(values).sum(axis=2) for values in (golden.bases[1].sketch, changed))
    norm2 = np.where(old > 0, golden.bases[1].norm2 * (new / np.where(old > 0, old, 1)), new)
    return replace(
        golden,
        header=replace(golden.header, **{"environment": NEW, **header}),
        bases={1: Basis(sketch=changed, norm2=norm2)},
    )


def rounded(sketch: np.ndarray, size: float, *, seed: int = 3) -> np.ndarray:
    """The gradients with rounding of this relative size, in no direction of its own."""
    return sketch * (1 + size * np.random.default_rng(seed).standard_normal(sketch.shape))


def expert(golden: Golden) -> list[int]:
    """Positions of the expert parameters."""
    return [index for index, own in enumerate(golden.header.parameters) if own.family == "expert"]


def test_the_same_content_has_no_drift(golden: Golden):
    drift = assay_drift(golden, again(golden))
    assert (drift.kind, drift.cause) == (DriftKind.NONE, "")
    assert drift.environment["torch"] == ("2.12.0", "2.13.0")


@pytest.mark.parametrize("size", [1e-16, 1e-14, 1e-11, 1e-9, 1e-8])
@pytest.mark.parametrize("seed", range(4))
def test_rounding_of_any_size_below_the_noise_is_blamed_on_the_environment(golden: Golden, size: float, seed: int):
    drift = assay_drift(golden, again(golden, lambda sketch: rounded(sketch, size, seed=seed)))
    assert (drift.kind, drift.cause) == (DriftKind.ROUNDING, "torch 2.12.0 -> 2.13.0, cuda 12.8 -> 13.0")
    assert {family.family for family in drift.families} == {"dense", "expert"}
    assert all(family.moved and not family.broken for family in drift.families)
    assert "suspected cause: torch 2.12.0 -> 2.13.0" in drift.sentence


def test_rounding_without_a_known_change_says_so(golden: Golden):
    drift = assay_drift(golden, again(golden, lambda sketch: rounded(sketch, 1e-12), environment=OLD))
    assert (drift.kind, drift.cause) == (DriftKind.ROUNDING, UNCHANGED)


def test_noise_that_was_measured_anew_is_rounding(golden: Golden):
    noise = {family: replace(floor, q999=1.5 * floor.q999) for family, floor in golden.header.noise.items()}
    drift = assay_drift(golden, again(golden, noise=noise))
    assert drift.kind is DriftKind.ROUNDING
    assert "measured anew" in drift.sentence


def scale_experts(factor: float) -> Callable[[Golden, np.ndarray], np.ndarray]:
    def change(golden: Golden, sketch: np.ndarray) -> np.ndarray:
        sketch[:, expert(golden)] *= factor
        return sketch

    return change


def scale_a_unit(golden: Golden, sketch: np.ndarray) -> np.ndarray:
    sketch[5] *= 1.25
    return sketch


def swap_units(golden: Golden, sketch: np.ndarray) -> np.ndarray:
    return sketch[[1, 0, *range(2, len(sketch))]]


def swap_parameters(golden: Golden, sketch: np.ndarray) -> np.ndarray:
    first, second = expert(golden)[:2]
    sketch[:, [first, second]] = sketch[:, [second, first]]
    return sketch


def clear_a_parameter(golden: Golden, sketch: np.ndarray) -> np.ndarray:
    sketch[:, expert(golden)[2]] = 0
    return sketch


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (scale_experts(2.0), "3 of 3 expert parameters are scaled by 2 in every unit"),
        (scale_experts(1 / 3), "3 of 3 expert parameters are scaled by 0.333333333 in every unit"),
        (scale_experts(1 + 1e-6), "expert parameters are scaled by"),
        (scale_experts(1 + 1e-10), "expert parameters are scaled by 1 + 1e-10 in every unit"),
        (scale_experts(-1.0), "expert parameters are scaled by -1"),
        (scale_a_unit, "in unit 5 of 12"),
        (swap_units, "in units 0, 1 of 12"),
        (swap_parameters, "2 of 3 expert parameters differ by up to"),
        (clear_a_parameter, "1 of 3 expert parameters are zero in every unit (expert.2.weight)"),
    ],
)
@pytest.mark.parametrize("rounding", [0.0, 1e-14])
def test_injected_change_is_structured_and_named(
    golden: Golden, change: Callable[[Golden, np.ndarray], np.ndarray], says: str, rounding: float
):
    drift = assay_drift(golden, again(golden, lambda sketch: rounded(change(golden, sketch), rounding)))
    assert (drift.kind, drift.cause) == (DriftKind.STRUCTURED, "")
    assert says in drift.sentence
    assert sum(bool(family.broken) for family in drift.families) == (2 if change in (scale_a_unit, swap_units) else 1)


def test_gradient_where_there_was_none_is_structured(golden: Golden):
    without = again(golden, lambda sketch: clear_a_parameter(golden, sketch))
    drift = assay_drift(without, golden)
    assert drift.kind is DriftKind.STRUCTURED
    assert "1 of 3 expert parameters have a gradient where there was none" in drift.sentence


def test_change_of_a_large_tensor_that_its_sketch_cannot_show_is_seen_in_its_norm(golden: Golden):
    basis = golden.bases[1]
    grown = basis.norm2.copy()
    grown[:, 0] *= 1.5
    drift = assay_drift(golden, replace(golden, bases={1: replace(basis, norm2=grown)}))
    assert drift.kind is DriftKind.STRUCTURED
    assert "1 of 2 dense parameters" in drift.sentence


def test_what_headers_state_differently_is_structured(golden: Golden):
    header = golden.header
    units = (*header.units[:3], replace(header.units[3], tokens=7), *header.units[4:])
    noisy = {**header.noise, "expert": NoiseFloor(q50=1e-4, q999=2e-4, samples=240)}
    fine = {**header.noise, "expert": NoiseFloor(q50=1e-12, q999=2e-12, samples=240)}
    second = SecondStep(units=8, update=Update(learning_rate=0.1), noise={})
    for stated, says in (
        ({"objective": "token-mean"}, "objective unit-mean -> token-mean"),
        ({"units": units}, "other token counts in unit 3 of 12"),
        ({"noise": noisy}, "less power"),
        ({"noise": fine}, "a stricter tolerance"),
        ({"noise": {"dense": header.noise["dense"]}}, "the noise floor of expert is gone"),
        ({"second": second}, "update before the second step none -> SGD at learning rate 0.1 over 8 units"),
        ({"dtype": replace(header.dtype, reduce="bfloat16")}, "dtype profile"),
        ({"problem": replace(header.problem, digest="sha256:other")}, "it is of problem toy (sha256:other)"),
    ):
        drift = assay_drift(golden, again(golden, **stated))
        assert drift.kind is DriftKind.STRUCTURED, stated
        assert says in drift.sentence


def test_fewer_units_or_parameters_are_structured(golden: Golden):
    basis, header = golden.bases[1], golden.header
    fewer = replace(
        golden,
        header=replace(header, units=header.units[:8]),
        bases={1: Basis(sketch=basis.sketch[:8], norm2=basis.norm2[:8])},
    )
    assert "units 12 -> 8" in assay_drift(golden, fewer).sentence
    shorter = replace(
        golden,
        header=replace(header, parameters=header.parameters[:-1]),
        bases={1: Basis(sketch=basis.sketch[:, :-1], norm2=basis.norm2[:, :-1])},
    )
    assert "1 parameter gone or reshaped (expert.2.weight)" in assay_drift(golden, shorter).sentence
    assert "1 parameter new or reshaped (expert.2.weight)" in assay_drift(shorter, golden).sentence


def test_the_likeliest_change_of_the_environment_is_suspected():
    assert suspected_cause(changed_environment(OLD, NEW)) == "torch 2.12.0 -> 2.13.0, cuda 12.8 -> 13.0"
    assert suspected_cause(changed_environment(OLD, {**OLD, "python": "3.12"})) == "python 3.11.2 -> 3.12"
    assert suspected_cause(changed_environment(OLD, OLD)) == UNCHANGED
    assert changed_environment({}, {"gpu": "H200"}) == {"gpu": ("unknown", "H200")}


def test_drift_is_strict_json(golden: Golden):
    drift: Drift = assay_drift(again(golden, lambda sketch: clear_a_parameter(golden, sketch)), golden)
    document = json.loads(json.dumps(drift.to_json(), allow_nan=False))
    assert (document["kind"], document["families"][1]["largest"]) == ("structured", None)
