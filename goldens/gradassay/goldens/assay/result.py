"""The one verdict object, computed in one place and rendered everywhere."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from gradassay.goldens.errors import Exit
from gradassay.goldens.layout import Layout


class Verdict(StrEnum):
    """What a comparison came to."""

    AGREE = "agree"
    DIVERGE = "diverge"
    INCONCLUSIVE = "inconclusive"
    INCOMPLETE = "incomplete"
    INCOMPARABLE = "incomparable"


EXITS: Mapping[Verdict, Exit] = {
    Verdict.AGREE: Exit.AGREE,
    Verdict.DIVERGE: Exit.DIVERGE,
    Verdict.INCOMPLETE: Exit.INCOMPLETE,
    Verdict.INCOMPARABLE: Exit.INCOMPARABLE,
    Verdict.INCONCLUSIVE: Exit.INCONCLUSIVE,
}

GRAVEST_FIRST: tuple[Verdict, ...] = (
    Verdict.DIVERGE,
    Verdict.INCOMPLETE,
    Verdict.INCOMPARABLE,
    Verdict.INCONCLUSIVE,
    Verdict.AGREE,
)


class Pattern(StrEnum):
    """Shapes that weights take over ranks and micro steps; the set may grow."""

    UNIFORM = "uniform"
    GEOMETRIC = "geometric"
    LINEAR = "linear"
    LAST_ONLY = "last-only"
    FIRST_ONLY = "first-only"
    MICRO_SUBSET = "micro-subset"
    RANK_SUBSET = "rank-subset"
    UNREDUCED = "unreduced"
    PARTLY_UNREDUCED = "partly-unreduced"
    OWN_AGAIN = "own-again"
    REDUCED_AGAIN = "reduced-again"
    TOKEN_WEIGHTING = "token-weighting"
    TERM = "term"
    STALE = "stale"
    ZERO = "zero"
    MISSING = "missing"
    SIGN = "sign"
    RANK_DISAGREEMENT = "rank-disagreement"
    PERMUTED = "permuted"
    NON_FINITE = "non-finite"
    UNEXPLAINED = "unexplained"


@dataclass(frozen=True, slots=True, kw_only=True)
class Law:
    """The simplest formula that the noise allows.

    scale: the factor as a formula of the layout's sizes ("ep", "1/dp"), None where the pattern has none. value: that
    factor as a number. formula: the whole law. ties: other formulas with the same numbers in this layout.
    separated_by: a layout in which they differ. confidence: 0 to 1, this law's share of explanatory weight among all.
    """

    pattern: Pattern
    formula: str
    scale: str | None = None
    value: float | None = None
    ties: tuple[str, ...] = ()
    separated_by: str | None = None
    confidence: float = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnerWeights:
    """The weights of what one data-parallel rank owns: [dp][accum], None where the data cannot see a unit."""

    rank: int
    weights: tuple[tuple[float | None, ...], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """Parameters that diverge under one law.

    count of `of`: how many parameters of these families diverge so. weights: [dp][accum], rows by data-parallel rank,
    None where unobserved; the whole is None where units explain nothing (zero, missing, unexplained). residual: share
    of the gradient that the law leaves unexplained. segments: [16] ratio by sixteenth of the tensor, where they differ.
    known_faults: ids of public reports with this signature.
    """

    families: tuple[str, ...]
    parameters: tuple[str, ...]
    count: int
    of: int
    law: Law
    weights: tuple[tuple[float | None, ...], ...] | None
    weights_stderr: float | None
    residual: float | None
    segments: tuple[float | None, ...] | None = None
    owners: tuple[OwnerWeights, ...] | None = None
    known_faults: tuple[str, ...] = ()
    sentence: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ParameterVerdict:
    """One parameter. ratio: <candidate, truth>/<truth, truth>. residual: distance from the truth, relative to it."""

    name: str
    family: str
    verdict: Verdict
    ratio: float | None
    residual: float | None
    tolerance: float | None
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """What was compared: a golden or a record, and how it was referred to."""

    kind: str
    ref: str
    title: str = ""
    environment: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Assay:
    """A comparison of record b with golden or record a.

    power: by family, the smallest scale factor that this comparison would have flagged (1.01 = one per cent).
    tokens: [dp][accum] that count in the loss, where the comparison knew them.
    sentence: the verdict in one sentence.
    """

    verdict: Verdict
    a: Side
    b: Side
    stage: str
    layout: Layout
    sentence: str
    tokens: tuple[tuple[float, ...], ...] = ()
    power: Mapping[str, float] = field(default_factory=dict)
    findings: tuple[Finding, ...] = ()
    parameters: tuple[ParameterVerdict, ...] = ()
    unmatched_a: tuple[str, ...] = ()
    unmatched_b: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def exit(self) -> Exit:
        """The exit code of a command that ends with this verdict."""
        return EXITS[self.verdict]


@dataclass(frozen=True, slots=True, kw_only=True)
class JointFinding:
    """One law that holds in every cell of a matrix for the same families."""

    families: tuple[str, ...]
    law: Law
    cells: tuple[str, ...]
    known_faults: tuple[str, ...] = ()
    sentence: str = ""


def joint_verdict(assays: Sequence[Assay]) -> Verdict:
    """The gravest verdict of several assays: they agree only if each one does. Needs at least one."""
    return min((assay.verdict for assay in assays), key=GRAVEST_FIRST.index)
