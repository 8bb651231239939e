"""The linear system: weights with honest standard errors, directions unseen left unsaid, owners told apart."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from gradassay.goldens.assay.fits import Fitter
from gradassay.goldens.assay.noise import Tolerance
from gradassay.goldens.assay.scale import Scale
from gradassay.goldens.assay.shapes import Geometric, Linear, Place, Setting, Uniform, Unreduced
from gradassay.goldens.assay.system import System, build_system, solve, solve_lines
from gradassay.goldens.header import Parameter
from gradassay.goldens.layout import Layout

LAYOUT = Layout(dp=3, accum=2)
SETTING = Setting(layout=LAYOUT, tokens=np.ones((3, 2)))
SIGMA = 1e-3


def padded(values: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.concatenate([values, np.zeros((*values.shape[:-1], 1024 - values.shape[-1]))], axis=-1)


def system(
    weights: NDArray[np.float64],
    *,
    numel: int = 200,
    seed: int = 0,
    sigma: float = SIGMA,
    idle: tuple[int, ...] = (),
    shards: tuple[tuple[int, int, int], ...] | None = None,
) -> System:
    """Of a parameter whose units weigh [U], with rounding of relative size sigma."""
    random = np.random.default_rng(seed)
    units = random.standard_normal((LAYOUT.units, numel)) / LAYOUT.units
    units[list(idle)] = 0
    measured = weights @ units
    measured = measured + sigma * np.sqrt((measured**2).mean()) * random.standard_normal(numel)
    parameter = Parameter(name=f"p{seed}", shape=(numel,), family="dense", shards=shards)
    allowed = Tolerance(error=4 * sigma, scale=4 * sigma)
    return build_system(seed, parameter, allowed, padded(units), padded(measured), None)


def test_weights_and_their_standard_error() -> None:
    """Over many draws, errors are as large as the standard error says, and as rare beyond it."""
    truth = np.array([1.0, 2, 0, 1, 1, 3])
    errors, stderrs = [], []
    for seed in range(60):
        found = solve([system(truth, seed=seed)], LAYOUT, noise=SIGMA)
        errors.append(found.weights.T.ravel() - truth)
        stderrs.append(found.stderr)
    spread = np.std(errors)
    assert 0.5 * spread <= np.mean(stderrs) <= 3 * spread
    assert np.abs(errors).max() < 6 * max(stderrs)


def test_several_parameters_know_more_than_one() -> None:
    truth = np.ones(6)
    one = solve([system(truth)], LAYOUT, noise=SIGMA)
    many = solve([system(truth, seed=seed) for seed in range(9)], LAYOUT, noise=SIGMA)
    assert many.stderr < one.stderr / 2


def test_units_without_a_gradient_are_unobserved() -> None:
    found = solve([system(np.ones(6), idle=(4,))], LAYOUT, noise=SIGMA)
    rank, micro = 4 % 3, 4 // 3
    assert np.isnan(found.weights[rank, micro])
    assert np.isfinite(np.delete(found.weights.T.ravel(), 4)).all()


def test_fewer_numbers_than_units_say_nothing() -> None:
    found = solve([system(np.ones(6), numel=4)], LAYOUT, noise=SIGMA)
    assert np.isnan(found.weights).all()


def test_lines_are_seen_where_units_are_not() -> None:
    weights = np.array([1.0, 1, 1, 3, 3, 3])
    few = system(weights, numel=5)
    lines = solve_lines([few], LAYOUT, of_ranks=False, noise=SIGMA)
    assert lines.levels == pytest.approx([1, 3], abs=6 * lines.stderr.max())
    assert lines.residual < 4 * SIGMA
    wrong = solve_lines([system(weights)], LAYOUT, of_ranks=True, noise=SIGMA)
    assert wrong.residual > 100 * SIGMA


def test_nothing_measured_is_nothing_solved() -> None:
    found = solve([system(np.zeros(6))], LAYOUT, noise=SIGMA)
    assert np.isnan(found.weights).all()
    assert np.isnan(found.residual)


def test_owners_are_solved_apart() -> None:
    shards = ((0, 0, 80), (1, 80, 150), (2, 150, 200))
    parts = [system(np.roll([5.0, 1, 1, 1, 1, 1], rank), shards=shards) for rank in range(3)]
    for rank, part in enumerate(parts):
        assert [block.place.owner for block in part.blocks] == [0, 1, 2]
        found = solve([part], LAYOUT, owner=rank, noise=SIGMA)
        assert found.weights.T.ravel() == pytest.approx(np.roll([5.0, 1, 1, 1, 1, 1], rank), abs=0.05)


def test_one_owner_is_an_owner_too() -> None:
    (block,) = system(np.ones(6), shards=((2, 0, 200),)).blocks
    assert block.place == Place(owner=2)


def test_elements_that_nobody_or_two_own() -> None:
    found = system(np.ones(6), shards=((0, 0, 100), (1, 50, 150)))
    owners = {block.place.owner: block.numbers for block in found.blocks}
    assert owners == {0: 100, 1: 50, None: 50}


class TestFits:
    """Many at once are as one by one, and only what fits is accepted."""

    geometric = Geometric(Scale(constant=3.0), rising=True)

    def test_many_are_as_one(self) -> None:
        systems = [system(np.ones(6) * (1 + seed), seed=seed, numel=5 + 40 * seed) for seed in range(5)]
        together = Fitter(systems, SETTING).fit(Uniform())
        for place, one in enumerate(systems):
            alone = Fitter([one], SETTING).fit(Uniform())
            assert alone.scale[0] == pytest.approx(together.scale[place])
            assert alone.residual[0] == pytest.approx(together.residual[place], rel=1e-6)

    def test_the_right_shape_is_accepted_and_no_other(self) -> None:
        weights = np.repeat([1 / 3, 1.0], 3) * 5
        fitter = Fitter([system(weights)], SETTING)
        right = fitter.fit(self.geometric)
        assert right.accepted[0]
        assert right.close[0]
        assert right.scale[0] == pytest.approx(5, rel=1e-2)
        for shape in (Uniform(), Linear(rising=True), Geometric(Scale(constant=2.0), rising=True)):
            assert not fitter.fit(shape).accepted[0], shape

    def test_what_weights_would_account_for_counts_more_than_noise(self) -> None:
        """A wrong shape may leave less than rounding is allowed to, and is still found out by where it leaves it."""
        weights = np.ones(6) + 2.2e-3 * np.array([1, -1, 1, -1, 1, -1])
        one = system(weights, numel=1000, sigma=4e-4)
        lenient = build_lenient(one)
        fits = Fitter([lenient], SETTING).fit(Uniform())
        assert fits.residual[0] <= 2 * lenient.tolerance.error
        assert not fits.accepted[0]

    def test_shapes_that_need_an_owner_say_nothing_without_one(self) -> None:
        fits = Fitter([system(np.ones(6))], SETTING).fit(Unreduced("rank", Uniform()))
        assert np.isnan(fits.scale[0])
        assert not fits.accepted[0]

    def test_nothing_to_fit(self) -> None:
        fits = Fitter([], SETTING).fit(Uniform())
        assert fits.scale.shape == fits.accepted.shape == (0,)


def build_lenient(one: System) -> System:
    """The same with much room for error, and little for a factor."""
    return System(
        index=one.index, parameter=one.parameter, tolerance=Tolerance(error=1e-2, scale=1e-4), blocks=one.blocks
    )
