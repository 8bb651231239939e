"""The smallest error of each kind that each check flags, by bisection on real runs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from math import inf, isfinite, sqrt
from statistics import median

import numpy as np

from gradassay.goldens.assay.compare import assay_record
from gradassay.goldens.assay.noise import family_scale, tolerance
from gradassay.goldens.assay.result import Verdict
from gradassay.goldens.sketch import BUCKETS
from gradassay.harness.power.honest import Honest
from gradassay.harness.power.injected import ERRORS, Candidate, Error
from gradassay.harness.power.published import RULES, Gradients, Rule
from gradassay.harness.progress import Progress, Silent

SKETCH, GRADIENT = "gradassay", "gradassay's rule on whole gradients"
PRECISION = 0.03

Check = Callable[[Candidate, frozenset[str], Gradients], bool]
"""Whether a candidate is flagged that may be wrong in these tensors, beside these gradients."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Smallest:
    """What one check sees of one kind of error in one family.

    median, worst: the smallest size that is flagged, over tensors and runs; infinite where no size is. alarms: honest runs
    that it flags too, `of` so many: its sizes then mean nothing. coarse: those of them that it flags where the reference is
    the float64 truth, as far from them as a run whose kernels round otherwise.
    """

    check: str
    error: str
    family: str
    median: float
    worst: float
    alarms: int
    coarse: int
    of: int


def measure(honest: Honest, *, progress: Progress | None = None) -> list[Smallest]:
    """Every check on every kind of error in every family."""
    checks = _checks(honest)
    candidates = [Candidate.of(record) for record in honest.records.values()]
    families: dict[str, list[str]] = defaultdict(list)
    for parameter in honest.golden.header.parameters:
        families[parameter.family].append(parameter.name)
    found = []
    total = len(ERRORS) * len(families) * len(checks)
    with (progress or Silent()).stage(f"power {honest.golden.name}", total) as advance:
        for family, members in families.items():
            for name, check in checks.items():
                alarms = sum(check(candidate, frozenset(members), honest.reference) for candidate in candidates)
                coarse = sum(check(candidate, frozenset(members), honest.truth) for candidate in candidates)
                for error in ERRORS:
                    sizes = [
                        _smallest(check, error, candidate, names, honest)
                        for candidate in candidates
                        for names in error.targets(members)
                    ]
                    found.append(
                        Smallest(
                            check=name,
                            error=error.title,
                            family=family,
                            median=median(sizes),
                            worst=max(sizes),
                            alarms=alarms,
                            coarse=coarse,
                            of=len(candidates),
                        )
                    )
                    advance(f"{family}, {error.title}, {name}")
    return found


def _smallest(check: Check, error: Error, candidate: Candidate, names: frozenset[str], honest: Honest) -> float:
    def flagged(size: float) -> bool:
        return check(error.put(candidate, names, size, honest), names, honest.reference)

    found = smallest(flagged, error.limits)
    return error.rounded(candidate, names, found) if isfinite(found) else inf


def smallest(flagged: Callable[[float], bool], limits: tuple[float, float]) -> float:
    """The smallest size between the limits that is flagged, to PRECISION of itself; infinite where the largest is not."""
    low, high = limits
    if not flagged(high):
        return inf
    if flagged(low):
        return low
    while high / low > 1 + PRECISION:
        middle = sqrt(low * high)
        low, high = (low, middle) if flagged(middle) else (middle, high)
    return high


def _checks(honest: Honest) -> Mapping[str, Check]:
    def sketched(candidate: Candidate, _names: frozenset[str], _reference: Gradients) -> bool:
        return assay_record(candidate.record, honest.golden).verdict is Verdict.DIVERGE

    return {
        SKETCH: sketched,
        GRADIENT: partial(_whole, honest),
        **{rule.name: partial(_published, rule, honest.dtype) for rule in RULES},
    }


def _published(rule: Rule, dtype: str, candidate: Candidate, names: frozenset[str], reference: Gradients) -> bool:
    return rule.flagged(reference, candidate.gradients, names, dtype)


def _whole(honest: Honest, candidate: Candidate, names: frozenset[str], _reference: Gradients) -> bool:
    """The same tolerances, without sketches: distance from the truth, and the part along it, tensor by tensor and together."""
    header = honest.golden.header
    sizes = {parameter.name: parameter for parameter in header.parameters}
    ratios: dict[str, list[float]] = defaultdict(list)
    for name in names:
        truth, own = (one[name].astype(np.float64).ravel() for one in (honest.truth, candidate.gradients))
        norm2 = float(truth @ truth)
        if norm2 == 0:
            if own.any():
                return True
            continue
        family, elements = sizes[name].family, min(sizes[name].numel, BUCKETS)
        allowed = tolerance(header.noise[family], tests=len(header.parameters), elements=elements)
        ratio = float(own @ truth) / norm2
        if np.linalg.norm(own - truth) > allowed.error * sqrt(norm2) or abs(ratio - 1) > allowed.scale:
            return True
        ratios[family].append(ratio)
    return any(
        abs(float(np.mean(found)) - 1)
        > family_scale(
            header.noise[family],
            parameters=len(found),
            elements=sum(min(sizes[name].numel, BUCKETS) for name in names),
        )
        for family, found in ratios.items()
    )
