"""The problems that come with the package."""

from __future__ import annotations

from gradassay.harness.problems.language import LanguageProblem
from gradassay.harness.problems.shape import Shape


def dense_tiny() -> LanguageProblem:
    """A dense model of two blocks; 35 parameters."""
    shape = Shape(vocabulary=96, length=16, hidden=64, heads=4, layers=2, inner=96)
    return LanguageProblem(name="dense-tiny", seed=11, shape=shape, sequences=4)


def moe_tiny() -> LanguageProblem:
    """Two blocks, each with 12 routed experts, two a token, and a shared one; loss and load-balancing loss."""
    shape = Shape(
        vocabulary=96, length=16, hidden=64, heads=4, layers=2, inner=32, experts=12, shared=64, auxiliary=0.02
    )
    return LanguageProblem(name="moe-tiny", seed=12, shape=shape, sequences=4)


def ragged_tiny() -> LanguageProblem:
    """A dense model with tied embedding and frozen positions; units count 1 to 60 tokens, and every token alike."""
    shape = Shape(vocabulary=96, length=16, hidden=64, heads=4, layers=2, inner=96, tied=True)
    return LanguageProblem(name="ragged-tiny", seed=13, shape=shape, sequences=4, objective="token-mean")


def moe_small() -> LanguageProblem:
    """The model of moe-tiny with 34 million parameters."""
    shape = Shape(
        vocabulary=1024, length=64, hidden=512, heads=8, layers=4, inner=512, experts=12, shared=1024, auxiliary=0.02
    )
    return LanguageProblem(name="moe-small", seed=14, shape=shape, sequences=4)
