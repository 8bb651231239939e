"""Made-up faults that a golden shows, and those that it cannot."""

from __future__ import annotations

import pytest

from builders import make_golden, make_toy
from gradassay.goldens.assay.mutations import Missed, mutation_score

FAMILIES = {"dense": [(24, 16)], "expert": [(12, 30)] * 2}
OF_UNITS = {1: 2, 2: 4, 4: 10, 12: 18}


@pytest.mark.parametrize("units", OF_UNITS)
def test_every_fault_shows_in_a_golden_that_sees_every_unit(units: int):
    score = mutation_score(make_golden(make_toy(families=FAMILIES, units=units)))
    assert (score.caught, score.of, score.missed) == (2 * OF_UNITS[units], 2 * OF_UNITS[units], ())


def test_unit_that_a_family_never_saw_is_not_missed_there():
    idle = {f"expert.{number}.weight": [3] for number in range(2)}
    score = mutation_score(make_golden(make_toy(families=FAMILIES, units=8, idle=idle)))
    assert score.missed == (Missed(mutation="unit 3 lost", families=("expert",)),)
    assert score.caught == score.of - 1


def test_one_expert_that_saw_the_unit_is_enough():
    score = mutation_score(make_golden(make_toy(families=FAMILIES, units=8, idle={"expert.0.weight": [3]})))
    assert score.missed == ()


def test_noise_hides_what_is_small():
    score = mutation_score(make_golden(make_toy(families=FAMILIES, units=12), noise=0.4))
    names = {one.mutation for one in score.missed}
    assert {f"unit {unit} lost" for unit in range(12)} <= names
    assert "twice too large" not in names


def test_score_is_written_as_json():
    score = mutation_score(make_golden(make_toy(families=FAMILIES, units=4), noise=0.9))
    document = score.to_json()
    assert document["of"] == 20
    assert document["caught"] + sum(len(one["families"]) for one in document["missed"]) == 20
