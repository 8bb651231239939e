from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from gradassay.goldens.assay import alike
from gradassay.goldens.assay.evidence import Evidence, gather
from gradassay.goldens.assay.noise import Tolerance
from gradassay.goldens.assay.system import FIT_MARGIN, System, build_system
from gradassay.goldens.layout import Layout

FAMILIES = {"dense": [(40, 36)] * 6, "expert": [(24, 16)] * 7, "norm": [(2,)] * 3}
TOLERANCE = Tolerance(error=1e-6, scale=1e-6)


@pytest.fixture
def evidence(make_toy: Any, make_golden: Any, make_record: Any) -> Evidence:
    toy = make_toy(families=FAMILIES, units=12)
    return gather(make_record(toy, layout=Layout(dp=4, accum=3)), make_golden(toy), stage="reduced", step=1)


def systems(evidence: Evidence) -> list[System]:
    return [
        build_system(index, parameter, TOLERANCE, evidence.units(index), evidence.measured[index], None)
        for index, parameter in enumerate(evidence.parameters)
    ]


def by_distance(found: list[System], evidence: Evidence) -> dict[int, list[int]]:
    """For each system, the parameters of its shape a multiple of which is as near as rounding."""
    near: dict[int, list[int]] = {}
    for system in found:
        measured = evidence.measured[system.index]
        for index, parameter in enumerate(evidence.parameters):
            truth = evidence.truth[index]
            if index == system.index or parameter.shape != system.parameter.shape or parameter.numel < 3:
                continue
            left = np.linalg.norm(measured - (truth @ measured) / (truth @ truth) * truth)
            if left <= FIT_MARGIN * TOLERANCE.error * np.linalg.norm(measured):
                near.setdefault(system.index, []).append(index)
    return near


@pytest.mark.parametrize("at_once", [1, 3, 256])
def test_multiples_of_others_are_found(evidence: Evidence, monkeypatch: pytest.MonkeyPatch, at_once: int) -> None:
    monkeypatch.setattr(alike, "_AT_ONCE", at_once)
    sources = [1, 0, *range(2, 6), 7, 8, 6, *range(9, 16)]
    factors = np.where(np.arange(16) % 2, -3.0, 0.5)[:, None]
    wrong = replace(evidence, measured=evidence.truth[sources] * factors)
    found = {system.index: others for system, others in alike.alike(systems(wrong), wrong)}
    assert found == {0: [1], 1: [0], 6: [7], 7: [8], 8: [6]}
    assert found == by_distance(systems(wrong), wrong)


def test_right_gradients_and_those_of_nothing_are_like_no_other(evidence: Evidence) -> None:
    assert list(alike.alike(systems(evidence), evidence)) == []
    nothing = replace(evidence, measured=np.zeros_like(evidence.measured))
    assert list(alike.alike(systems(nothing), nothing)) == []


def test_a_share_of_another_is_no_multiple_of_it(evidence: Evidence) -> None:
    mixed = evidence.measured.copy()
    mixed[0] = evidence.truth[1] + 1e-3 * evidence.truth[2]
    assert list(alike.alike(systems(evidence), replace(evidence, measured=mixed))) == []
