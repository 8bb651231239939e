from __future__ import annotations

import dataclasses
from importlib.metadata import EntryPoint

import numpy as np
import pytest
import torch

import truths
from gradassay.goldens.errors import UsageError
from gradassay.harness import problems
from gradassay.harness.problems import known_problems, load_problem
from gradassay.harness.problems.catalogue import dense_tiny, moe_tiny
from gradassay.harness.problems.counter import to_bfloat16

TINY = ("dense-tiny", "moe-tiny", "ragged-tiny")
# The same bytes everywhere: a changed digest orphans every golden made before.
DIGESTS = {
    "dense-tiny": "sha256:6fa0bc6b6cfd61fde531405eeff9384fb51dfb8ff0756585a51f2c1fb23dc2ed",
    "moe-tiny": "sha256:06d11415dc4dd4a3362580c0e062f6930c9622db74a2514f79850c6743fcb309",
    "ragged-tiny": "sha256:26c5c308fc3f00312fa442de900d96a83e11ef092854ec26842c0e8f32cbf0bc",
    "moe-small": "sha256:fe254bad8a25c90a98b77ca6cdbbe2483fb0446612e830e19dd0af37712f8e7e",
}
FAMILIES = {
    "dense-tiny": {"dense", "norm", "bias", "embedding"},
    "moe-tiny": {"dense", "norm", "bias", "embedding", "expert", "router"},
    "ragged-tiny": {"dense", "norm", "bias", "tied"},
}


@pytest.mark.parametrize("name", DIGESTS)
def test_digest_is_pinned(name):
    assert load_problem(name).digest == DIGESTS[name]


@pytest.mark.parametrize(
    "change", [{"seed": 99}, {"objective": "token-mean"}, {"units": 25}, {"name": "other"}, {"sequences": 5}]
)
def test_digest_tells_changes_apart(change):
    assert dataclasses.replace(dense_tiny(), **change).digest != dense_tiny().digest


def test_digest_covers_the_objective_of_terms():
    shape = dataclasses.replace(moe_tiny().shape, auxiliary=0.03)
    assert dataclasses.replace(moe_tiny(), shape=shape).digest != moe_tiny().digest


@pytest.mark.parametrize("name", [*TINY, "moe-small"])
def test_weights_are_exact_in_bfloat16(name):
    for values in load_problem(name).weights().values():
        assert values.dtype == np.float32
        assert (to_bfloat16(values.astype(np.float64)) == values).all()


@pytest.mark.parametrize("name", TINY)
def test_model_is_what_the_parameters_say(name):
    problem = load_problem(name)
    model = problem.build(torch.float32)
    trained = [(name, tuple(value.shape)) for name, value in model.named_parameters() if value.requires_grad]
    assert trained == [(parameter.name, parameter.shape) for parameter in problem.parameters]
    assert {parameter.family for parameter in problem.parameters} == FAMILIES[name]
    for parameter_name, value in model.named_parameters():
        assert (value.detach().numpy() == problem.weights()[parameter_name]).all()


def test_ragged_has_a_frozen_parameter_and_uneven_units():
    problem = load_problem("ragged-tiny")
    frozen = [name for name, value in problem.build(torch.float32).named_parameters() if not value.requires_grad]
    assert frozen == ["position.weight"]
    tokens = [problem.tokens(unit) for unit in range(problem.units)]
    assert min(tokens) == 1
    assert max(tokens) == 60
    assert np.std(tokens) / np.mean(tokens) > 0.8
    for unit, count in enumerate(tokens):
        assert int((problem.batch(unit).targets >= 0).sum()) == count


@pytest.mark.parametrize("name", TINY)
def test_every_parameter_has_a_gradient_in_every_prefix(name):
    truth = truths.truth_of(name)
    sketches = sum(truth.terms.values())
    assert (np.linalg.norm(sketches[0], axis=1) > 0).all(), "unit 0 alone reaches every parameter"


@pytest.mark.parametrize("name", TINY)
def test_units_are_far_from_collinear(name):
    truth = truths.truth_of(name)
    for family in FAMILIES[name]:
        stacked = sum(truth.terms.values())[:, truth.rows(family)].reshape(truth.problem.units, -1)
        assert _condition(stacked) < 50, family
    if truth.problem.terms:
        both = np.concatenate([sketches[:, truth.rows("router")] for sketches in truth.terms.values()])
        assert _condition(both.reshape(len(both), -1)) < 100, "main and auxiliary loss of every unit can be told apart"


def test_condition_sees_collinear_units():
    stacked = sum(truths.truth_of("dense-tiny").terms.values())[:, 0]
    stacked[3] = stacked[2] + 1e-3 * stacked[3]
    assert _condition(stacked) > 1e5


def _condition(vectors: np.ndarray) -> float:
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return float(np.linalg.cond(vectors / lengths) ** 2)


def test_auxiliary_loss_is_a_visible_share_of_the_router_gradient():
    truth = truths.truth_of("moe-tiny")
    rows = truth.rows("router")
    share = np.linalg.norm(truth.terms["aux"][:, rows]) / np.linalg.norm(truth.terms["main"][:, rows])
    assert 0.01 < share < 0.2


def test_names_are_found_or_listed():
    assert set(DIGESTS) <= set(known_problems())
    with pytest.raises(UsageError, match="no problem is called 'moe-tny'") as raised:
        load_problem("moe-tny")
    assert "dense-tiny, moe-small, moe-tiny, ragged-tiny" in raised.value.hint


def test_module_and_function():
    assert load_problem("gradassay.harness.problems.catalogue:dense_tiny").digest == DIGESTS["dense-tiny"]
    with pytest.raises(UsageError, match="cannot be imported"):
        load_problem("gradassay.harness.problems.catalogue:nothing")
    with pytest.raises(UsageError, match="cannot be imported"):
        load_problem("no_such_module:problem")
    with pytest.raises(UsageError, match="gives a OrderedDict without name, digest"):
        load_problem("collections:OrderedDict")


def test_entry_points_add_problems(monkeypatch):
    point = EntryPoint(
        name="theirs", value="gradassay.harness.problems.catalogue:ragged_tiny", group="gradassay.problems"
    )
    monkeypatch.setattr(problems, "entry_points", lambda group: [point] if group == problems.GROUP else [])
    assert "theirs" in known_problems()
    assert load_problem("theirs").digest == DIGESTS["ragged-tiny"]
    load_problem.cache_clear()
