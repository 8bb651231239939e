"""Tolerances: monotone in everything, and right in so many of a thousand honest runs as they claim."""

from __future__ import annotations

import numpy as np
import pytest

from gradassay.goldens.assay.noise import FALSE_ALARMS, family_scale, relaxed, tolerance
from gradassay.goldens.header import NoiseFloor

FLOOR = NoiseFloor(q50=1e-7, q999=4e-7, samples=240)
MEASURED = NoiseFloor(q50=4e-3, q999=1.2e-2, samples=240, scale=1e-3)


@pytest.mark.parametrize("floor", [FLOOR, MEASURED])
def test_more_tests_need_more_room(floor: NoiseFloor) -> None:
    allowed = [tolerance(floor, tests=tests, elements=1024) for tests in (1, 2, 10, 100, 10_000)]
    assert [item.error for item in allowed] == sorted(item.error for item in allowed)
    assert [item.scale for item in allowed] == sorted(item.scale for item in allowed)
    assert allowed[0].error >= floor.q999


def test_more_samples_and_more_elements_need_less() -> None:
    by_samples = [
        tolerance(NoiseFloor(q50=1e-7, q999=4e-7, samples=samples), tests=10, elements=64).error
        for samples in (1, 10, 100, 10_000)
    ]
    assert by_samples == sorted(by_samples, reverse=True)
    by_elements = [tolerance(MEASURED_NOT, tests=10, elements=elements).scale for elements in (1, 16, 256, 1024)]
    assert by_elements == sorted(by_elements, reverse=True)
    assert by_elements[-1] < by_elements[0]


MEASURED_NOT = NoiseFloor(q50=4e-3, q999=1.2e-2, samples=240)


def test_a_larger_floor_allows_more() -> None:
    small = tolerance(FLOOR, tests=10, elements=64)
    large = tolerance(NoiseFloor(q50=2e-7, q999=8e-7, samples=240), tests=10, elements=64)
    assert large.error == pytest.approx(2 * small.error)
    assert large.scale > small.scale


def test_the_scale_is_never_wider_than_the_error() -> None:
    for floor in (FLOOR, MEASURED, MEASURED_NOT):
        for elements in (1, 10, 1024):
            allowed = tolerance(floor, tests=100, elements=elements)
            assert 0 < allowed.scale <= allowed.error


def test_storage_adds_to_a_floor_of_nothing() -> None:
    nothing = NoiseFloor(q50=0.0, q999=0.0, samples=10)
    assert tolerance(nothing, tests=1, elements=64).error == 0
    assert tolerance(nothing, tests=1, elements=64, storage=2.0**-24).error == pytest.approx(2.0**-24)
    assert family_scale(nothing, parameters=3, elements=64, storage=2.0**-24) == pytest.approx(2.0**-24)


def test_relaxed() -> None:
    allowed = tolerance(FLOOR, tests=1, elements=64)
    assert relaxed(allowed, 3.0).error == pytest.approx(3 * allowed.error)
    assert relaxed(allowed, 3.0).scale == pytest.approx(3 * allowed.scale)


@pytest.mark.parametrize("tests", [1, 30])
def test_false_alarms_are_as_rare_as_promised(tests: int) -> None:
    """Log-normal errors with the floor's two quantiles, as the extrapolation takes them to be."""
    random = np.random.default_rng(20261130)
    sigma = np.log(FLOOR.q999 / FLOOR.q50) / 3.090232306167813
    runs = 40_000
    worst = FLOOR.q50 * np.exp(sigma * random.standard_normal((runs, tests))).max(axis=1)
    alarms = (worst > tolerance(FLOOR, tests=tests, elements=1024).error).mean()
    assert alarms <= FALSE_ALARMS
    # Without the extrapolation to so many tests there would be more: the control of the simulation itself.
    assert (worst > FLOOR.q999).mean() >= (FALSE_ALARMS / 4) * tests


@pytest.mark.parametrize("elements", [8, 64, 1024])
def test_the_part_along_the_truth_of_isotropic_rounding(elements: int) -> None:
    random = np.random.default_rng(1)
    truth = random.standard_normal(elements)
    errors = random.standard_normal((20_000, elements)) * (4e-3 * np.linalg.norm(truth) / elements**0.5)
    ratios = 1 + errors @ truth / (truth @ truth)
    allowed = tolerance(MEASURED_NOT, tests=1, elements=elements)
    assert (np.abs(ratios - 1) > allowed.scale).mean() <= FALSE_ALARMS


def test_a_family_gains_from_its_parameters() -> None:
    gains = [family_scale(MEASURED, parameters=count, elements=1024 * count) for count in (1, 4, 16, 256, 4096)]
    assert gains == sorted(gains, reverse=True)
    assert gains[-1] >= gains[0] / 4 - 1e-12
