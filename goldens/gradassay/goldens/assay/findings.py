"""Every diverging parameter in exactly one finding, with the law that explains it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from math import isfinite, sqrt

import numpy as np

from gradassay.goldens.assay.cluster import LEAST_EVIDENCE, Cluster, cluster, named_scales
from gradassay.goldens.assay.evidence import Evidence
from gradassay.goldens.assay.fits import Fitter
from gradassay.goldens.assay.health import Health
from gradassay.goldens.assay.naming import Subject, name_law
from gradassay.goldens.assay.noise import LEAST_POWER, Tolerance
from gradassay.goldens.assay.result import Finding, Law, OwnerWeights, Pattern, Verdict
from gradassay.goldens.assay.sentence import finding_sentence
from gradassay.goldens.assay.shapes import Setting, Subset, Uniform
from gradassay.goldens.assay.system import FIT_MARGIN, Block, Solution, System, build_system, solve
from gradassay.goldens.assay.wider import Wider, listed, wider
from gradassay.goldens.faults import look_alikes
from gradassay.goldens.sketch import SEGMENTS

_LOOSE = Tolerance(error=1e-3, scale=1e-3)
_BY_OWNER = (Pattern.UNREDUCED, Pattern.PARTLY_UNREDUCED, Pattern.OWN_AGAIN, Pattern.REDUCED_AGAIN)
_PRECISION_CLASS = (2.0**-12, 2.0**-7)


def explain(evidence: Evidence, health: Health, *, framework: str, complete: bool) -> tuple[Finding, ...]:
    """The findings, those of most parameters first.

    framework: what the candidate calls itself. complete: record and golden name the same parameters.
    """
    builder = _Builder(evidence, health, framework, complete)
    systems = [_system(evidence, health, index) for index in health.diverging]
    clusters, unexplained = cluster(systems, evidence.setting)
    clusters, laws, unexplained = _prefer_wider(clusters, unexplained, evidence)
    silent = [_silenced(found, evidence, health) for found in clusters]
    findings = builder.broken(except_for={index for indices in silent for index in indices})
    findings += [builder.clustered(found, silent=indices) for found, indices in zip(clusters, silent, strict=True)]
    findings += [builder.widened(found) for found in laws]
    findings += builder.unexplained(unexplained)
    return tuple(sorted(findings, key=lambda finding: -finding.count))


def _silenced(found: Cluster, evidence: Evidence, health: Health) -> list[int]:
    """Parameters of the same families that are zero because the law leaves nothing of those units that reach them."""
    silent = []
    for index, pattern in health.broken.items():
        parameter = evidence.parameters[index]
        if pattern is Pattern.ZERO and parameter.family in found.families:
            blocks = _system(evidence, health, index).blocks
            if all(_nothing_left(found, block, evidence.setting) for block in blocks):
                silent.append(index)
    return silent


def _nothing_left(found: Cluster, block: Block, setting: Setting) -> bool:
    """Whether a law leaves nothing of a block; where its owner is not known, of one that any rank may own."""
    owners = range(setting.layout.dp) if block.place.owner is None else (block.place.owner,)
    weights = [found.shape.weights(setting, replace(block.place, owner=owner)) for owner in owners]
    return any(w is not None and not (block.triangle @ w.T.ravel()).any() for w in weights)


def _prefer_wider(
    clusters: list[Cluster], unexplained: list[System], evidence: Evidence
) -> tuple[list[Cluster], list[Wider], list[System]]:
    """Numbers that no size explains are given up where a wider basis explains more parameters at once."""
    numbers = [found for found in clusters if _is_a_number(found, evidence)]
    pool = unexplained + [system for found in numbers for system in found.systems]
    laws, rest = wider(pool, evidence)
    largest = max((len(found.systems) for found in numbers), default=0)
    if laws and sum(len(law.systems) for law in laws) > largest and numbers:
        kept = [found for found in clusters if found not in numbers]
        again, rest = cluster(rest, evidence.setting)
        clusters = kept + again
    else:
        laws, rest = wider(unexplained, evidence)
    if rest:
        weak = [found for found in clusters if _is_a_number(found, evidence) and found.evidence < LEAST_EVIDENCE]
        clusters = [found for found in clusters if found not in weak]
        rest = rest + [system for found in weak for system in found.systems]
    return clusters, laws, rest


def _is_a_number(found: Cluster, evidence: Evidence) -> bool:
    """Whether a cluster claims little: a factor or ratio that no size explains, that few numbers bear out, or of one rank."""
    if isinstance(found.shape, Subset):
        return found.shape.ratio is not None and not found.shape.ratio.named
    if not isinstance(found.shape, Uniform):
        return False
    owners = {block.place.owner for system in found.systems for block in system.blocks}
    if len(owners) == 1 and None not in owners:
        return True
    named = named_scales(found.shape, found.scale, evidence.setting, relative_tolerance=found.scale_tolerance)
    return not named or found.evidence < LEAST_EVIDENCE


def _system(evidence: Evidence, health: Health, index: int) -> System:
    copies = evidence.copies[:, index] if evidence.copies is not None else None
    alone = copies is not None and np.count_nonzero(copies.any(axis=1)) == 1
    return build_system(
        index,
        evidence.parameters[index],
        health.tolerances[index] or _LOOSE,
        evidence.units(index),
        evidence.measured[index],
        copies if alone or index in health.copied else None,
    )


class _Builder:
    """Builds findings of one assay; keeps what all of them need."""

    def __init__(self, evidence: Evidence, health: Health, framework: str, complete: bool) -> None:
        self.evidence = evidence
        self.framework = framework
        self.health = health
        self.complete = complete
        total = float(evidence.norm2.sum())
        self.total_norm = sqrt(total) if complete and isfinite(total) and total > 0 else None

    def _finding(self, indices: Sequence[int], law: Law, reports: Sequence[str], **details: object) -> Finding:
        parameters = [self.evidence.parameters[index] for index in indices]
        families = tuple(dict.fromkeys(parameter.family for parameter in parameters))
        of = sum(parameter.family in families for parameter in self.evidence.parameters)
        defaults: dict[str, object] = {"weights": None, "weights_stderr": None, "residual": None}
        return Finding(
            families=families,
            parameters=tuple(parameter.name for parameter in parameters),
            count=len(parameters),
            of=of,
            law=law,
            known_faults=tuple(reports),
            sentence=finding_sentence(families, len(parameters), of, law, total=len(self.evidence.parameters)),
            **(defaults | details),  # type: ignore[arg-type]
        )

    def _all(self, systems: Sequence[System]) -> bool:
        return self.complete and len(systems) == len(self.evidence.parameters)

    def _covers(self, found: Cluster, silent: Sequence[int]) -> bool:
        """Whether all that does not diverge so could not: unobserved, or with the same gradient under this law.

        silent: parameters of which the law leaves nothing.
        """
        if set(self.health.broken) - set(silent):
            return False
        members = {*(system.index for system in found.systems), *silent}
        others = [
            _system(self.evidence, self.health, index)
            for index, verdict in enumerate(self.health.parameters)
            if index not in members and verdict.verdict is not Verdict.INCONCLUSIVE
        ]
        fits = Fitter(others, self.evidence.setting).fit(found.shape)
        allowed = FIT_MARGIN * np.array([system.tolerance.error for system in others])
        return bool(np.all((fits.residual <= allowed) & (np.abs(fits.scale / found.scale - 1) <= allowed)))

    def broken(self, *, except_for: Collection[int]) -> list[Finding]:
        """Parameters that are zero, missing or not finite."""
        merged: dict[Pattern, list[int]] = defaultdict(list)
        for index, pattern in self.health.broken.items():
            if index not in except_for:
                merged[pattern].append(index)
        formulas = {
            Pattern.ZERO: "w[r,m] = 0",
            Pattern.MISSING: "the framework gave no gradient",
            Pattern.NON_FINITE: "NaN or infinite elements",
        }
        laws = {
            pattern: Law(
                pattern=pattern,
                formula=formulas[pattern],
                scale="0" if pattern is Pattern.ZERO else None,
                value=0.0 if pattern is Pattern.ZERO else None,
            )
            for pattern in merged
        }
        return [self._finding(sorted(indices), laws[pattern], ()) for pattern, indices in merged.items()]

    def clustered(self, found: Cluster, *, silent: Sequence[int]) -> Finding:
        """A law on units. silent: further parameters of which it leaves nothing."""
        systems = found.systems
        whole = self.complete and self._covers(found, silent)
        subject = Subject(framework=self.framework, whole=whole, total_norm=self.total_norm, clips=self.evidence.clips)
        law, reports = name_law(found, self.evidence.setting, subject)
        owned = law.pattern in _BY_OWNER
        solutions = self._by_owner(systems) if owned else {}
        together = None if owned else solve(systems, self.evidence.setting.layout, noise=_noise(systems))
        return self._finding(
            sorted([*(system.index for system in systems), *silent]),
            law,
            reports,
            weights=listed(together.weights) if together else None,
            weights_stderr=together.stderr if together else max(solution.stderr for solution in solutions.values()),
            residual=found.residual,
            owners=_listed(solutions) if owned else None,
        )

    def _by_owner(self, systems: Sequence[System]) -> dict[int, Solution]:
        """Weights of what each rank owns."""
        ranks = sorted({b.place.owner for s in systems for b in s.blocks if b.place.owner is not None})
        layout = self.evidence.setting.layout
        return {rank: solve(systems, layout, owner=rank, noise=_noise(systems)) for rank in ranks}

    def widened(self, found: Wider) -> Finding:
        """A law of a wider basis."""
        families = {system.parameter.family for system in found.systems}
        laws = [found.law.scale or found.law.formula, *found.law.ties]
        reports = look_alikes(
            found.law.pattern, laws, families, whole=self._all(found.systems), framework=self.framework
        )
        indices = [system.index for system in found.systems]
        residual = found.residual if isfinite(found.residual) else None
        return self._finding(indices, found.law, reports, residual=residual, owners=found.owners)

    def unexplained(self, systems: Sequence[System]) -> list[Finding]:
        """What is left, family by family: in the span without a pattern, or outside it."""
        families: dict[str, list[System]] = defaultdict(list)
        for system in systems:
            families[system.parameter.family].append(system)
        together = solve(systems, self.evidence.setting.layout, noise=_noise(systems)) if systems else None
        if together is not None and together.residual <= FIT_MARGIN * _noise(systems):
            return [self._unexplained(list(systems))]
        return [self._unexplained(members) for members in families.values()]

    def _unexplained(self, systems: list[System]) -> Finding:
        layout = self.evidence.setting.layout
        solution = solve(systems, layout, noise=_noise(systems))
        inside = solution.residual <= FIT_MARGIN * _noise(systems)
        seen = solution.weights[~np.isnan(solution.weights)]
        right = bool(len(seen) and np.abs(seen - 1).max() <= min(max(5 * solution.stderr, 1e-3), LEAST_POWER - 1))
        formula, reports = "no combination of units explains it", tuple[str, ...]()
        if not len(seen):
            formula = "too few numbers to tell the weights of units"
        elif right and solution.residual <= _PRECISION_CLASS[1]:
            formula = f"weights are right, but {solution.residual:.2g} of the gradient is lost"
            if solution.residual >= _PRECISION_CLASS[0] and not inside:
                formula += ": a precision class"
                families = {systems[0].parameter.family}
                reports = look_alikes(Pattern.UNEXPLAINED, ["precision"], families, whole=self._all(systems))
        elif inside:
            formula = "weights that follow no formula of the layout's sizes"
        owners = _listed(self._by_owner(systems)) if any(system.owned for system in systems) and not inside else None
        return self._finding(
            [system.index for system in systems],
            Law(pattern=Pattern.UNEXPLAINED, formula=formula, confidence=0.0),
            reports,
            weights=listed(solution.weights),
            weights_stderr=solution.stderr if isfinite(solution.stderr) else None,
            residual=solution.residual if isfinite(solution.residual) else None,
            segments=self._segments(systems),
            owners=owners,
        )

    def _segments(self, systems: Sequence[System]) -> tuple[float | None, ...] | None:
        """Mean ratio by sixteenth of the tensor, where they differ by more than rounding."""
        index = [system.index for system in systems]
        measured = self.evidence.measured[index].reshape(len(index), SEGMENTS, -1)
        truth = self.evidence.truth[index].reshape(len(index), SEGMENTS, -1)
        norm2 = np.einsum("psk,psk->s", truth, truth)
        dots = np.einsum("psk,psk->s", measured, truth)
        ratios = np.divide(dots, norm2, out=np.full(SEGMENTS, np.nan), where=norm2 > 0)
        seen = ratios[~np.isnan(ratios)]
        if not len(seen) or np.ptp(seen) <= 2 * max(system.tolerance.scale for system in systems):
            return None
        return tuple(None if np.isnan(ratio) else float(ratio) for ratio in ratios)


def _listed(solutions: Mapping[int, Solution]) -> tuple[OwnerWeights, ...]:
    return tuple(OwnerWeights(rank=rank, weights=listed(found.weights)) for rank, found in solutions.items())


def _noise(systems: Sequence[System]) -> float:
    return max(system.tolerance.error for system in systems)
