"""Checks that others publish, by their own rules and tolerances: whether they flag a candidate's gradients."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import sqrt

import numpy as np
from numpy.typing import NDArray

Gradient = NDArray[np.floating]
Gradients = Mapping[str, Gradient]
Flags = Callable[[Gradient, Gradient], bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """A published check. whole: it looks at all gradients together, not at one tensor after the other.

    rule: its condition in words. flags: by dtype profile, whether it flags (reference, candidate) of one tensor, or the
    total norms as arrays of one number where it looks at the whole.
    """

    name: str
    rule: str
    flags: Mapping[str, Flags]
    whole: bool = False

    def flagged(self, reference: Gradients, candidate: Gradients, names: frozenset[str], dtype: str) -> bool:
        """Whether it flags any of these tensors, or the whole."""
        flags = self.flags[dtype]
        if self.whole:
            return flags(_norm(reference), _norm(candidate))
        return any(flags(reference[name], candidate[name]) for name in names)


def _both(flags: Flags) -> Mapping[str, Flags]:
    return {"float32": flags, "bfloat16": flags}


def _norm(gradients: Gradients) -> Gradient:
    return np.array([sqrt(sum(float(np.vdot(one.astype(np.float64), one)) for one in gradients.values()))])


def close(*, relative: float, absolute: float) -> Flags:
    """|candidate - reference| <= absolute + relative * |reference| everywhere, as torch.allclose has it."""
    return lambda reference, candidate: bool(
        (np.abs(candidate - reference) > absolute + relative * np.abs(reference)).any()
    )


def _length(values: Gradient) -> float:
    return float(np.linalg.norm(values.astype(np.float64)))


def relative_norm(most: float) -> Flags:
    """||candidate - reference|| <= most * ||reference||."""
    return lambda reference, candidate: _length(candidate - reference) > most * _length(reference)


def dissimilarity(most: float) -> Flags:
    """1 - 2 <x, y> / (<x, x> + <y, y>) <= most."""

    def flags(reference: Gradient, candidate: Gradient) -> bool:
        x, y = reference.astype(np.float64).ravel(), candidate.astype(np.float64).ravel()
        total = float(x @ x + y @ y)
        return total > 0 and 1 - 2 * float(x @ y) / total > most

    return flags


def cosine(least: float) -> Flags:
    """<x, y> / (||x|| ||y||) > least."""

    def flags(reference: Gradient, candidate: Gradient) -> bool:
        x, y = reference.astype(np.float64).ravel(), candidate.astype(np.float64).ravel()
        lengths = float(np.linalg.norm(x) * np.linalg.norm(y))
        return lengths > 0 and float(x @ y) / lengths <= least

    return flags


RULES: tuple[Rule, ...] = (
    Rule(
        name="DeepSpeed, expert gradients",
        rule="allclose, rtol 1e-4, atol 1e-8",
        flags=_both(close(relative=1e-4, absolute=1e-8)),
    ),
    Rule(
        name="PyTorch, sharded parity",
        rule="assert_close's defaults: rtol 1.3e-6 (bfloat16 1.6e-2), atol 1e-5",
        flags={
            "float32": close(relative=1.3e-6, absolute=1e-5),
            "bfloat16": close(relative=1.6e-2, absolute=1e-5),
        },
    ),
    Rule(
        name="Fast-LLM",
        rule="RMS of the difference over RMS, 3e-3 (bfloat16 2e-2)",
        flags={"float32": relative_norm(3e-3), "bfloat16": relative_norm(2e-2)},
    ),
    Rule(name="SGLang", rule="1 - similarity, 1e-3", flags=_both(dissimilarity(1e-3))),
    Rule(name="Miles", rule="1 - similarity, 8.5e-3", flags=_both(dissimilarity(8.5e-3))),
    Rule(name="Megatron-LM", rule="relative Frobenius norm, 0.083", flags=_both(relative_norm(0.083))),
    Rule(name="DeepSpeed AutoEP", rule="atol 0.1", flags=_both(close(relative=0.0, absolute=0.1))),
    Rule(
        name="Total norm, 1 %",
        rule="norm of all gradients within 1 % of the reference's",
        flags=_both(relative_norm(0.01)),
        whole=True,
    ),
    Rule(
        name="Total norm, 5 %",
        rule="norm of all gradients within 5 % of the reference's",
        flags=_both(relative_norm(0.05)),
        whole=True,
    ),
    Rule(name="Cosine", rule="> 0.99", flags=_both(cosine(0.99))),
    Rule(
        name="Loss of step 1",
        rule="equal; no error of a gradient changes it",
        flags=_both(lambda _reference, _candidate: False),
        whole=True,
    ),
)
"""Published rules and their tolerances; sources in docs/power.md."""
