"""Explanations that no weights on units can give: a term, the step before, another parameter, copies that differ."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import isfinite, sqrt

import numpy as np
from numpy.typing import NDArray

from gradassay.goldens.assay.alike import LEAST_ELEMENTS, alike
from gradassay.goldens.assay.convention import evaluate
from gradassay.goldens.assay.evidence import Evidence
from gradassay.goldens.assay.fits import Fitter
from gradassay.goldens.assay.result import Law, OwnerWeights, Pattern
from gradassay.goldens.assay.scale import matching, number
from gradassay.goldens.assay.shapes import Setting, Uniform
from gradassay.goldens.assay.system import FIT_MARGIN, System, solve
from gradassay.goldens.sketch import BUCKETS

_DEVIATIONS = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Wider:
    """A law of a wider basis, and the systems that it explains."""

    systems: tuple[System, ...]
    law: Law
    residual: float
    owners: tuple[OwnerWeights, ...] | None = None
    notes: tuple[str, ...] = field(default=())


def wider(systems: Sequence[System], evidence: Evidence) -> tuple[list[Wider], list[System]]:
    """Laws of wider bases for systems that units do not explain, and the systems that stay unexplained."""
    found: list[Wider] = []
    remaining = list(systems)
    for explain in (_term, _stale, _permuted, _scaled_by_owner, _differing_copies):
        if not remaining:
            break
        explanation = explain(remaining, evidence)
        if explanation is not None:
            found.append(explanation)
            remaining = [system for system in remaining if system not in explanation.systems]
    return found, remaining


@dataclass(frozen=True, slots=True, kw_only=True)
class _Combination:
    """Coefficients of a few columns [P, 1024], the systems that they explain, and the residual that they leave.

    tolerances: how far each coefficient may be off.
    """

    coefficients: tuple[float, ...]
    tolerances: tuple[float, ...]
    systems: tuple[System, ...]
    residual: float


def _combination(
    systems: Sequence[System], evidence: Evidence, columns: Sequence[NDArray[np.float64]]
) -> _Combination | None:
    """The combination that explains most systems: of all together, or of one family where all together have none."""
    families: dict[str, list[System]] = defaultdict(list)
    for system in systems:
        families[system.parameter.family].append(system)
    found = _combined(systems, evidence, columns)
    if found is None and len(families) > 1:
        alone = [_combined(members, evidence, columns) for members in families.values()]
        found = max(filter(None, alone), key=lambda combination: len(combination.systems), default=None)
    return found


def _combined(
    systems: Sequence[System], evidence: Evidence, columns: Sequence[NDArray[np.float64]]
) -> _Combination | None:
    members = list(systems)
    while members:
        index = [system.index for system in members]
        numbers = np.array([min(system.parameter.numel, BUCKETS) for system in members])
        norms = np.linalg.norm(evidence.measured[index], axis=1)
        precision = np.sqrt(numbers) / np.where(norms == 0, 1.0, norms)
        matrix = np.stack([(column[index] * precision[:, None]).ravel() for column in columns], axis=1)
        target = (evidence.measured[index] * precision[:, None]).ravel()
        if np.linalg.matrix_rank(matrix) < len(columns):
            return None
        solved = np.linalg.lstsq(matrix, target)[0]
        left = np.linalg.norm((target - matrix @ solved).reshape(len(members), -1), axis=1) / np.sqrt(numbers)
        fitting = [
            system for system, part in zip(members, left, strict=True) if part <= FIT_MARGIN * system.tolerance.error
        ]
        if len(fitting) == len(members):
            free = int(numbers.sum()) - len(columns)
            if free <= 0:
                return None
            spread = np.sqrt(np.diag(np.linalg.inv(matrix.T @ matrix)) * float(numbers @ left**2) / free)
            # Rounding along the gradient may fall on any column, and weighs more on a small one.
            along = 3 * min(system.tolerance.scale for system in members)
            least = along * np.linalg.norm(target) / np.linalg.norm(matrix, axis=0)
            return _Combination(
                coefficients=tuple(solved.tolist()),
                tolerances=tuple(np.maximum(_DEVIATIONS * spread, least).tolist()),
                systems=tuple(members),
                residual=float(np.sqrt(np.mean(left**2))),
            )
        members = fitting
    return None


def _term(systems: Sequence[System], evidence: Evidence) -> Wider | None:
    names = list(evidence.terms)
    if len(names) < 2:
        return None
    found = _combination(_of_one_copy(systems), evidence, [evidence.terms[name] for name in names])
    if found is None:
        return None
    known = zip(names, found.coefficients, found.tolerances, strict=True)
    scaled = [(name, coefficient, off) for name, coefficient, off in known if abs(coefficient - 1) > off]
    if not scaled or np.ptp(found.coefficients) <= max(found.tolerances):
        return None
    values = evidence.setting.values
    parts: list[str] = []
    first_scale, first_ties = "", tuple[str, ...]()
    for name, coefficient, off in scaled:
        scale, ties = _named(coefficient, values, off)
        parts.append(f"w[{name}] = {scale}")
        if not first_scale:
            first_scale, first_ties = scale, ties
    law = Law(
        pattern=Pattern.TERM,
        formula=", ".join(parts),
        scale=first_scale,
        value=evaluate(first_scale, values),
        ties=first_ties,
    )
    return Wider(systems=found.systems, law=law, residual=found.residual)


def _named(value: float, values: Mapping[str, float], tolerance: float) -> tuple[str, tuple[str, ...]]:
    """The text of a coefficient, 0 included, and its ties."""
    if abs(value) <= tolerance:
        return "0", ()
    named = matching(abs(value), values, relative_tolerance=tolerance / abs(value))
    sign = "-" if value < 0 else ""
    if not named:
        return f"{sign}{number(float(f'{abs(value):.4g}'))}", ()
    return f"{sign}{named[0]}", tuple(f"{sign}{scale}" for scale in named[1:5])


def _times(scale: str, vector: str) -> str:
    return vector if scale == "1" else f"{scale}*{vector}"


def _of_one_copy(systems: Sequence[System]) -> list[System]:
    """Systems of which one gradient was measured: where copies differ, the first of them says nothing of the others."""
    return [system for system in systems if not system.copied]


def _stale(systems: Sequence[System], evidence: Evidence) -> Wider | None:
    if evidence.history is None:
        return None
    found = _combination(_of_one_copy(systems), evidence, [evidence.truth, evidence.history])
    if found is None:
        return None
    fresh, stale = found.coefficients
    if abs(stale) <= found.tolerances[1]:
        return None
    scale, ties = _named(stale, evidence.setting.values, found.tolerances[1])
    now, _ = _named(fresh, evidence.setting.values, found.tolerances[0])
    law = Law(
        pattern=Pattern.STALE,
        formula=f"g = {_times(now, 'g[step]')} + {_times(scale, 'g[step-1]')}",
        scale=scale,
        value=evaluate(scale, evidence.setting.values),
        ties=ties,
    )
    return Wider(systems=found.systems, law=law, residual=found.residual)


def _permuted(systems: Sequence[System], evidence: Evidence) -> Wider | None:
    members, sources, residuals = [], [], []
    for system, others in alike(systems, evidence):
        measured, truths = evidence.measured[system.index], evidence.truth[others]
        norms2 = np.einsum("pk,pk->p", truths, truths)
        scales = truths @ measured / np.where(norms2 == 0, np.inf, norms2)
        left = np.linalg.norm(measured - scales[:, None] * truths, axis=1) / float(np.linalg.norm(measured))
        best = int(np.argmin(left))
        if left[best] <= FIT_MARGIN * system.tolerance.error:
            members.append(system)
            sources.append((evidence.parameters[others[best]].name, float(scales[best])))
            residuals.append(float(left[best]))
    if not members:
        return None
    pairs = [f"{system.parameter.name} <- {name}" for system, (name, _) in zip(members, sources, strict=True)]
    scale = float(np.median([scale for _, scale in sources]))
    text, ties = _named(scale, evidence.setting.values, 3 * max(system.tolerance.error for system in members))
    more = f" and {len(pairs) - 3} more" if len(pairs) > 3 else ""
    law = Law(
        pattern=Pattern.PERMUTED,
        formula=f"g = {text + ' * ' if text != '1' else ''}the gradient of another parameter: {', '.join(pairs[:3])}{more}",
        scale=text,
        value=scale,
        ties=ties,
    )
    notes = tuple(f"permuted: {pair}" for pair in pairs)
    return Wider(systems=tuple(members), law=law, residual=sqrt(float(np.mean(np.square(residuals)))), notes=notes)


def _scaled_by_owner(systems: Sequence[System], evidence: Evidence) -> Wider | None:
    """Owners that each scale what they hold by a factor of their own."""
    setting = evidence.setting
    factors: dict[int, list[float]] = defaultdict(list)
    explained, unsure, residuals = [], [], []
    for system, fits in zip(systems, _factors_by_owner(systems, setting), strict=True):
        good = {owner: factor for owner, (factor, left) in fits.items() if isfinite(left)}
        if not fits or len(good) < len(fits):
            continue
        if len(fits) < 2 or min(system.parameter.numel, BUCKETS) < len(fits) + LEAST_ELEMENTS:
            unsure.append((system, good))
            continue
        explained.append(system)
        residuals += [left for _, left in fits.values()]
        for owner, factor in good.items():
            factors[owner].append(factor)
    if not explained:
        return None
    ranks = sorted(factors)
    levels = {rank: float(np.median(factors[rank])) for rank in ranks}
    tolerance = 3 * max(system.tolerance.scale for system in explained)
    if np.ptp(list(levels.values())) <= tolerance * max(map(abs, levels.values())):
        return None
    explained += [
        system
        for system, good in unsure
        if all(
            abs(factor / levels.get(owner, np.inf) - 1) <= 3 * system.tolerance.scale for owner, factor in good.items()
        )
    ]
    odd = {rank: level for rank, level in levels.items() if abs(level - 1) > tolerance}
    groups: dict[str, list[int]] = {}
    for rank, level in odd.items():
        groups.setdefault(_named(level, setting.values, tolerance)[0], []).append(rank)
    ties = _named(next(iter(odd.values())), setting.values, tolerance)[1] if odd else ()
    parts = [f"{scale} if owner in {{{','.join(map(str, owned))}}}" for scale, owned in groups.items()]
    only = next(iter(groups)) if len(groups) == 1 else None
    law = Law(
        pattern=Pattern.RANK_DISAGREEMENT,
        formula=f"w[r,m] = {' else '.join([*parts, '1'])}",
        scale=only,
        value=evaluate(only, setting.values) if only else None,
        ties=ties if only else (),
    )
    return Wider(
        systems=tuple(explained),
        law=law,
        residual=sqrt(float(np.mean(np.square(residuals)))),
        owners=_owner_weights(explained, ranks, evidence),
    )


def _factors_by_owner(systems: Sequence[System], setting: Setting) -> list[dict[int, tuple[float, float]]]:
    """For each parameter and rank, the factor that explains what it owns, or its copy, and what that leaves (else NaN)."""
    owned = [
        (place, block.place.owner, replace(system, blocks=(block,)))
        for place, system in enumerate(systems)
        for block in system.blocks
        if block.place.owner is not None
    ]
    fits = Fitter([system for _, _, system in owned], setting).fit(Uniform())
    found: list[dict[int, tuple[float, float]]] = [{} for _ in systems]
    left = np.where(fits.accepted, fits.residual, np.nan)
    for (place, owner, _), factor, residual in zip(owned, fits.scale.tolist(), left.tolist(), strict=True):
        found[place][owner] = (factor, residual)
    return found


def _differing_copies(systems: Sequence[System], evidence: Evidence) -> Wider | None:
    """Copies of a replicated parameter that are not the same on all ranks, for no reason that a law gives."""
    members = [system for system in systems if system.copied]
    if not members:
        return None
    ranks = sorted({b.place.owner for s in members for b in s.blocks if b.place.owner is not None})
    wrong = [rank for rank in ranks if any(_copy_differs(system, rank, evidence) for system in members)]
    which = f": those of rank{'s' if len(wrong) > 1 else ''} {', '.join(map(str, wrong))} are wrong" if wrong else ""
    return Wider(
        systems=tuple(members),
        law=Law(pattern=Pattern.RANK_DISAGREEMENT, formula=f"ranks hold different gradients of one parameter{which}"),
        residual=float("nan"),
        owners=_owner_weights(members, ranks, evidence),
    )


def _copy_differs(system: System, rank: int, evidence: Evidence) -> bool:
    """Whether the copy of this rank is further from the truth than rounding takes it."""
    truth = evidence.truth[system.index]
    copies = [] if evidence.copies is None else [evidence.copies[rank, system.index]]
    return any(
        copy.any() and np.linalg.norm(copy - truth) > system.tolerance.error * np.linalg.norm(truth) for copy in copies
    )


def _owner_weights(systems: Sequence[System], ranks: Sequence[int], evidence: Evidence) -> tuple[OwnerWeights, ...]:
    return tuple(
        OwnerWeights(rank=rank, weights=listed(solve(systems, evidence.setting.layout, owner=rank, noise=0.0).weights))
        for rank in ranks
    )


def listed(weights: NDArray[np.float64]) -> tuple[tuple[float | None, ...], ...]:
    """Weights [dp, accum] as nested tuples, None where unobserved."""
    return tuple(tuple(None if np.isnan(weight) else float(weight) for weight in row) for row in weights)
