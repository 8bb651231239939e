"""The smallest error that is flagged is found, in sketches and in gradients, on a problem whose noise is known."""

from __future__ import annotations

from collections.abc import Callable
from math import inf, isfinite, sqrt
from typing import Any

import pytest

from gradassay.goldens.golden import Golden
from gradassay.goldens.layout import Layout
from gradassay.goldens.record import Record
from gradassay.harness.power import RULES, Honest, Smallest, measure
from gradassay.harness.power.honest import gradients
from gradassay.harness.power.injected import ERRORS
from gradassay.harness.power.measure import GRADIENT, PRECISION, SKETCH, smallest
from gradassay.harness.power.table import by_check, by_family, markdown, size

NOISE = 1e-4
LAYOUT = Layout(dp=2, accum=2)
TENSOR, FAMILY, UNIT, SHARE = (error.title for error in ERRORS)


@pytest.mark.parametrize("limit", [1e-6, 0.013, 0.9])
def test_the_smallest_size_is_found_to_its_precision(limit: float) -> None:
    found = smallest(lambda asked: asked >= limit, (1e-7, 1.0))
    assert limit <= found <= limit * (1 + PRECISION)


def test_what_is_never_flagged_is_infinite_and_what_always_is_the_least() -> None:
    assert smallest(lambda _size: False, (1e-7, 1.0)) == inf
    assert smallest(lambda _size: True, (1e-7, 1.0)) == 1e-7


@pytest.fixture(scope="module")
def found(
    make_toy: Callable[..., Any], make_golden: Callable[..., Golden], make_record: Callable[..., Record]
) -> dict[tuple[str, str, str], Smallest]:
    """By check, error and family: a problem with 1e-4 of noise, and two runs that round."""
    toy = make_toy(families={"dense": [(24, 16), (60, 40)], "norm": [(64,), (64,)]}, units=4)

    def run(noise: float, seed: int = 1, layout: Layout = LAYOUT) -> Record:
        return make_record(toy, layout=layout, noise=noise, seed=seed, full=True)

    honest = Honest(
        golden=make_golden(toy, noise=NOISE),
        problem=toy,
        layout=LAYOUT,
        records={"one": run(NOISE, seed=1), "two": run(NOISE, seed=2)},
        reference=gradients(run(NOISE / 10, seed=3)),
        truth=gradients(run(0.0)),
        unit=gradients(run(0.0, layout=Layout())),
    )
    return {(one.check, one.error, one.family): one for one in measure(honest)}


def test_a_factor_is_seen_a_little_above_its_noise(found: dict[tuple[str, str, str], Smallest]) -> None:
    """The part of the noise along a gradient of n numbers is 1/sqrt(n) of it."""
    for check in (SKETCH, GRADIENT):
        one = found[check, TENSOR, "norm"]
        assert NOISE / sqrt(64) < one.median <= one.worst < 10 * NOISE / sqrt(64)
        assert (one.alarms, one.of) == (0, 2)


def test_a_family_shows_less_than_its_tensors(found: dict[tuple[str, str, str], Smallest]) -> None:
    assert found[SKETCH, FAMILY, "norm"].worst < found[SKETCH, TENSOR, "norm"].worst


def test_one_unit_shows_less_than_all(found: dict[tuple[str, str, str], Smallest]) -> None:
    assert found[SKETCH, UNIT, "norm"].worst > found[SKETCH, FAMILY, "norm"].worst


def test_a_share_is_of_whole_elements(found: dict[tuple[str, str, str], Smallest]) -> None:
    one = found[SKETCH, SHARE, "norm"]
    assert (one.worst * 64).is_integer()
    assert 1 / 64 <= one.worst < 0.1


def test_published_checks_see_what_their_tolerances_say(found: dict[tuple[str, str, str], Smallest]) -> None:
    assert found["Megatron-LM", TENSOR, "dense"].worst == pytest.approx(0.083, rel=0.05)
    assert found["Total norm, 5 %", FAMILY, "norm"].worst > 0.05
    assert found["Loss of step 1", TENSOR, "dense"].worst == inf


def test_a_check_that_flags_honest_runs_says_so(found: dict[tuple[str, str, str], Smallest]) -> None:
    one = found["PyTorch, sharded parity", TENSOR, "dense"]
    assert one.alarms == one.coarse == one.of
    assert found["Megatron-LM", TENSOR, "dense"].alarms == 0


def test_tables_hold_every_check_and_family(found: dict[tuple[str, str, str], Smallest]) -> None:
    rows = list(by_check(list(found.values())))
    assert [row[0] for row in rows] == ["check", SKETCH, GRADIENT, *(rule.name for rule in RULES)]
    assert rows[-1][1:] == ("never", "never", "never", "never", "0", "0")
    assert [row[0] for row in by_family(list(found.values()))] == ["family", "dense", "norm"]
    text = markdown(by_family(list(found.values())))
    assert text.splitlines()[1] == "| --- | ---: | ---: | ---: | ---: |"
    assert size(found[SKETCH, TENSOR, "norm"].worst) in text
    assert all(isfinite(one.worst) for one in found.values() if one.check == SKETCH)
