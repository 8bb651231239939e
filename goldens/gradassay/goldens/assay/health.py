"""Parameter by parameter: within honest rounding of the truth, or not."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import isfinite

import numpy as np

from gradassay.goldens.assay.evidence import Evidence
from gradassay.goldens.assay.noise import Tolerance, coarsened, family_scale, relaxed, tolerance
from gradassay.goldens.assay.result import ParameterVerdict, Pattern, Verdict
from gradassay.goldens.header import NoiseFloor
from gradassay.goldens.sketch import BUCKETS, LARGEST


@dataclass(frozen=True, slots=True, kw_only=True)
class Health:
    """What each of P parameters came to.

    parameters: [P] verdicts. tolerances: [P], None where the golden has no noise floor. broken: by index, those whose
    pattern is plain without any arithmetic (zero, missing, non-finite). diverging: indices of the others that diverge.
    copied: indices of those whose copies on the ranks differ by more than rounding.
    """

    parameters: tuple[ParameterVerdict, ...]
    tolerances: tuple[Tolerance | None, ...]
    broken: Mapping[int, Pattern]
    diverging: tuple[int, ...]
    copied: frozenset[int]
    power: Mapping[str, float]
    unmeasured: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Distance:
    ratio: float
    error: float


def examine(evidence: Evidence, noise: Mapping[str, NoiseFloor]) -> Health:
    """The health of every parameter, then of every family by the mean of its ratios."""
    count = len(evidence.parameters)
    tolerances: list[Tolerance | None] = []
    verdicts: list[ParameterVerdict] = []
    broken: dict[int, Pattern] = {}
    copied: set[int] = set()
    for index, parameter in enumerate(evidence.parameters):
        floor = noise.get(parameter.family)
        allowed = None
        if floor is not None:
            elements = min(parameter.numel, BUCKETS)
            allowed = coarsened(
                tolerance(floor, tests=count, elements=elements, storage=float(evidence.storage[index])),
                roundoff=evidence.roundoff,
                sums=evidence.setting.layout.units,
            )
            allowed = relaxed(allowed, float(evidence.cancelled[index]))
        tolerances.append(allowed)
        pattern = _broken(evidence, index)
        if pattern is not None:
            broken[index] = pattern
        distance, differ = _distance(evidence, index, allowed, broken=pattern is Pattern.NON_FINITE)
        if differ:
            copied.add(index)
        verdicts.append(_judge(evidence, index, pattern, distance, allowed))
    power = _family_power(evidence, noise)
    verdicts, tolerances = _judge_families(evidence, noise, verdicts, tolerances)
    diverging = tuple(
        index for index, verdict in enumerate(verdicts) if verdict.verdict is Verdict.DIVERGE and index not in broken
    )
    families = dict.fromkeys(parameter.family for parameter in evidence.parameters)
    return Health(
        parameters=tuple(verdicts),
        tolerances=tuple(tolerances),
        broken=broken,
        diverging=diverging,
        copied=frozenset(copied),
        power=power,
        unmeasured=tuple(family for family in families if family not in noise),
    )


def _broken(evidence: Evidence, index: int) -> Pattern | None:
    expected = bool(evidence.truth[index].any() or evidence.basis[:, index].any())
    sketches = [evidence.measured[index]] + ([] if evidence.copies is None else [evidence.copies[:, index]])
    finite = all((np.abs(sketch) <= LARGEST).all() for sketch in sketches) and isfinite(evidence.norm2[index])
    if evidence.nonfinite[index] or not finite:
        return Pattern.NON_FINITE
    if not evidence.present[index]:
        return Pattern.MISSING if expected else None
    held = evidence.measured[index].any() or (evidence.copies is not None and evidence.copies[:, index].any())
    if evidence.truth[index].any() and not held:
        return Pattern.ZERO
    return None


def _copies(evidence: Evidence, index: int) -> np.ndarray | None:
    """[n, 1024] of the ranks that hold the parameter whole, or None."""
    if evidence.copies is None:
        return None
    rows = evidence.copies[:, index]
    held = rows[np.any(rows != 0, axis=1)]
    return held if len(held) else None


def _distance(
    evidence: Evidence, index: int, allowed: Tolerance | None, *, broken: bool
) -> tuple[_Distance | None, bool]:
    """The distance of the gradient, or of its worst copy, from the truth; and whether the copies differ."""
    truth = evidence.truth[index]
    norm2 = float(truth @ truth)
    if norm2 == 0 or broken:
        return None, False
    candidates = evidence.measured[index][None]
    copies = _copies(evidence, index)
    differ = False
    if copies is not None:
        spread = float(np.linalg.norm(copies - copies[0], axis=1).max()) / norm2**0.5
        differ = allowed is not None and spread > allowed.error
        candidates = np.concatenate([candidates, copies]) if not differ else copies
    errors = np.linalg.norm(candidates - truth, axis=1) / norm2**0.5
    worst = int(np.argmax(errors))
    return _Distance(float(candidates[worst] @ truth) / norm2, float(errors[worst])), differ


def _judge(
    evidence: Evidence, index: int, pattern: Pattern | None, distance: _Distance | None, allowed: Tolerance | None
) -> ParameterVerdict:
    parameter = evidence.parameters[index]
    verdict, note = Verdict.AGREE, ""
    if pattern is not None:
        verdict, note = Verdict.DIVERGE, pattern.value
        if pattern is Pattern.ZERO and evidence.norm2[index]:
            note = f"the sketch is zero, though its norm is said to be {evidence.norm2[index] ** 0.5:.3g}"
    elif distance is None:
        measured = bool(evidence.measured[index].any())
        verdict = Verdict.DIVERGE if measured else Verdict.INCONCLUSIVE
        note = "a gradient where the truth is zero" if measured else "unobserved: no unit has a gradient here"
    elif allowed is None:
        verdict, note = Verdict.INCONCLUSIVE, f"no noise floor for family {parameter.family}"
    elif not (distance.error <= allowed.error and abs(distance.ratio - 1) <= allowed.scale):
        verdict = Verdict.DIVERGE
    elif allowed.error >= 1 and distance.error > allowed.error / evidence.cancelled[index]:
        verdict, note = Verdict.INCONCLUSIVE, "units cancel to less than their rounding"
    return ParameterVerdict(
        name=parameter.name,
        family=parameter.family,
        verdict=verdict,
        ratio=distance.ratio if distance else None,
        residual=distance.error if distance else None,
        tolerance=allowed.error if allowed else None,
        note=note,
    )


def _family_power(evidence: Evidence, noise: Mapping[str, NoiseFloor]) -> dict[str, float]:
    power = {}
    for family in dict.fromkeys(parameter.family for parameter in evidence.parameters):
        if family in noise:
            power[family] = 1 + _family_scale(evidence, noise[family], family)
    return power


def _family_scale(evidence: Evidence, floor: NoiseFloor, family: str) -> float:
    members = [index for index, parameter in enumerate(evidence.parameters) if parameter.family == family]
    sizes = [min(evidence.parameters[index].numel, BUCKETS) for index in members]
    storage = float(evidence.storage[members].mean())
    storage += evidence.roundoff / 2
    return family_scale(floor, parameters=len(sizes), elements=sum(sizes), storage=storage)


def _judge_families(
    evidence: Evidence,
    noise: Mapping[str, NoiseFloor],
    verdicts: list[ParameterVerdict],
    tolerances: list[Tolerance | None],
) -> tuple[list[ParameterVerdict], list[Tolerance | None]]:
    """A factor too small for any one tensor is still seen in the mean over a family that agrees otherwise."""
    verdicts, tolerances = list(verdicts), list(tolerances)
    for family, floor in noise.items():
        members = [i for i, parameter in enumerate(evidence.parameters) if parameter.family == family]
        ratios = [verdicts[i].ratio for i in members if verdicts[i].verdict is Verdict.AGREE]
        if len(ratios) < 2 or len(ratios) < len(members):
            continue
        sizes = (
            np.array([min(evidence.parameters[i].numel, BUCKETS) for i in members]) / evidence.cancelled[members] ** 2
        )
        mean = float(np.average([ratio for ratio in ratios if ratio is not None], weights=sizes))
        allowed = _family_scale(evidence, floor, family)
        if abs(mean - 1) <= allowed:
            continue
        for i in members:
            tolerances[i] = Tolerance(error=error.error, scale=allowed) if (error := tolerances[i]) else None
            note = f"the mean ratio of family {family} is {mean:.6g}"
            verdicts[i] = replace(verdicts[i], verdict=Verdict.DIVERGE, note=note)
    return verdicts, tolerances
