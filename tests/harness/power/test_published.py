"""Published rules flag what their tolerances say, and nothing below."""

from __future__ import annotations

import numpy as np
import pytest

from gradassay.harness.power.published import RULES, Rule

REFERENCE = {
    "one": np.random.default_rng(0).standard_normal((40, 50)).astype(np.float32) + np.float32(3.0),
    "two": np.random.default_rng(1).standard_normal(64).astype(np.float32) + np.float32(3.0),
}
NAMES = frozenset(REFERENCE)

# The factor from which a check flags a gradient around 3, by its own arithmetic.
FACTORS = {
    "DeepSpeed, expert gradients": 1e-4,
    "PyTorch, sharded parity": 1.3e-6 + 1e-5 / 6.5,
    "Fast-LLM": 3e-3,
    "SGLang": 2 * np.sqrt(0.5e-3),
    "Miles": 2 * np.sqrt(0.5 * 8.5e-3),
    "Megatron-LM": 0.083,
    "DeepSpeed AutoEP": 0.1 / 6.5,
    "Total norm, 1 %": 0.01,
    "Total norm, 5 %": 0.05,
}


def scaled(by: float) -> dict[str, np.ndarray]:
    return {name: (values * by).astype(np.float32) for name, values in REFERENCE.items()}


def rule(name: str) -> Rule:
    return next(one for one in RULES if one.name == name)


@pytest.mark.parametrize("name", FACTORS)
def test_a_factor_is_flagged_from_the_tolerance_on(name: str) -> None:
    known, size = rule(name), FACTORS[name]
    assert known.flagged(REFERENCE, scaled(1 + 1.4 * size), NAMES, "float32")
    assert not known.flagged(REFERENCE, scaled(1 + 0.6 * size), NAMES, "float32")


@pytest.mark.parametrize("known", RULES, ids=lambda one: one.name)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_the_same_gradients_are_never_flagged(known: Rule, dtype: str) -> None:
    assert not known.flagged(REFERENCE, dict(REFERENCE), NAMES, dtype)


def test_no_factor_turns_a_gradient() -> None:
    assert not rule("Cosine").flagged(REFERENCE, scaled(1000.0), NAMES, "float32")
    turned = {name: values[::-1].copy() for name, values in scaled(1.0).items()}
    spread = {name: values - 3 for name, values in turned.items()}
    assert rule("Cosine").flagged({name: values - 3 for name, values in REFERENCE.items()}, spread, NAMES, "float32")


def test_a_loss_is_the_same_whatever_the_gradient() -> None:
    assert not rule("Loss of step 1").flagged(REFERENCE, scaled(-1.0), NAMES, "float32")


def test_bfloat16_has_its_own_tolerance() -> None:
    for name in ("PyTorch, sharded parity", "Fast-LLM"):
        assert rule(name).flagged(REFERENCE, scaled(1.01), NAMES, "float32")
        assert not rule(name).flagged(REFERENCE, scaled(1.01), NAMES, "bfloat16")


def test_only_the_named_tensors_are_looked_at() -> None:
    wrong = {**REFERENCE, "two": REFERENCE["two"] * 2}
    assert rule("Megatron-LM").flagged(REFERENCE, wrong, frozenset({"two"}), "float32")
    assert not rule("Megatron-LM").flagged(REFERENCE, wrong, frozenset({"one"}), "float32")
