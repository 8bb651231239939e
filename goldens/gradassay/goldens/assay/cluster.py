"""Which parameters diverge alike: the shape that explains most of them goes first, then the rest is explained anew."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gradassay.goldens.assay.fits import Fitter
from gradassay.goldens.assay.result import Pattern
from gradassay.goldens.assay.scale import Scale, matching
from gradassay.goldens.assay.shapes import Geometric, Setting, Shape, Subset, Uniform, known_shapes, read_shapes
from gradassay.goldens.assay.system import FIT_MARGIN, System, solve_lines

# A law is worth more than the numbers it explains only where it is right about so many more bits than it takes to write.
LEAST_EVIDENCE = 10.0
_UNMATCHED_SCALE_BITS = 12.0
_SHIFT_BITS = 0.6
_NATURAL_BITS = 1.0
_PROBES = 6
# However uncertain a factor is, numbers that are further apart are not called the same.
_LOOSEST_SCALE = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """Parameters that one shape explains with one scale.

    doubt: total explanatory weight of rival shapes with other numbers, relative to this one's, at least 0. evidence: bits
    that the law is right about beyond those that it takes to write it.
    """

    systems: tuple[System, ...]
    shape: Shape
    scale: float
    scale_tolerance: float
    residual: float
    doubt: float
    evidence: float

    @property
    def families(self) -> tuple[str, ...]:
        """Families of its parameters, each once."""
        return tuple(dict.fromkeys(system.parameter.family for system in self.systems))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Candidate:
    """members: positions of the parameters that a shape explains with about the same scale."""

    shape: Shape
    members: NDArray[np.int64]
    scale: float
    residual: float
    scale_tolerance: float
    bits: float
    evidence: float


def cluster(systems: Sequence[System], setting: Setting) -> tuple[list[Cluster], list[System]]:
    """Clusters that a shape explains, largest first, and the systems that none does."""
    search = _Search(systems, setting)
    remaining = np.arange(len(systems))
    clusters: list[Cluster] = []
    while len(remaining):
        shapes = search.shapes(remaining)
        candidates = [found for shape in shapes for found in search.candidates(shape, remaining)]
        if not candidates:
            break
        best = min(candidates, key=lambda candidate: (-len(candidate.members), candidate.bits))
        clusters.append(search.cluster(best, shapes))
        remaining = np.setdiff1d(remaining, best.members)
    return clusters, [systems[position] for position in remaining.tolist()]


class _Search:
    """Looks for shapes among parameters; keeps what all looks need."""

    def __init__(self, systems: Sequence[System], setting: Setting) -> None:
        self.systems = systems
        self.setting = setting
        self.fitter = Fitter(systems, setting)
        self.along = np.array([system.tolerance.scale for system in systems])
        self.evidence = np.array([system.evidence_bits for system in systems])
        self.precision = np.array([system.precision_bits for system in systems])
        self.expert = np.array([system.parameter.family == "expert" for system in systems], dtype=bool)
        self.owned = np.array([system.owned for system in systems], dtype=bool)
        self.stages = 1 + max((system.parameter.stage for system in systems), default=0)

    def shapes(self, remaining: NDArray[np.int64]) -> list[Shape]:
        """Every known shape, and those that the weights of what remains suggest."""
        known = known_shapes(self.setting, stages=self.stages, owners=bool(self.owned[remaining].any()))
        return [*known, *_shapes_read_off([self.systems[position] for position in remaining.tolist()], self.setting)]

    def candidates(self, shape: Shape, among: NDArray[np.int64]) -> Iterator[_Candidate]:
        """Groups of parameters that a shape explains with the same scale, where that says more than it takes to write."""
        fits = self.fitter.fit(shape)
        members = among[fits.accepted[among]]
        if isinstance(shape, Uniform):
            members = members[np.abs(fits.scale[members] - 1) > self.along[members]]
        for group in _alike(members, fits.scale, self.along):
            scale = float(np.median(fits.scale[group]))
            tolerance = min(max(1.5 * float(self.along[group].min()), 1e-9), _LOOSEST_SCALE)
            expert = bool(self.expert[group].all())
            named = named_scales(shape, scale, self.setting, relative_tolerance=tolerance)
            bits = min(
                (description_bits(shape, match, expert=expert) for match in named),
                default=shape.bits + _UNMATCHED_SCALE_BITS,
            )
            evidence = float(self.evidence[group].sum()) - bits
            if not named:
                evidence -= float(self.precision[group].max())
            fitted = not named or (isinstance(shape, Subset) and shape.ratio is not None and not shape.ratio.named)
            enough = evidence >= LEAST_EVIDENCE and (not fitted or bool(fits.close[group].all()))
            if enough or isinstance(shape, Uniform):
                yield _Candidate(
                    shape=shape,
                    members=group,
                    scale=scale,
                    residual=float(np.sqrt(np.mean(fits.residual[group] ** 2))),
                    scale_tolerance=tolerance,
                    bits=bits,
                    evidence=evidence,
                )

    def cluster(self, best: _Candidate, shapes: Sequence[Shape]) -> Cluster:
        """The cluster of a candidate, with its doubt."""
        systems = tuple(self.systems[position] for position in best.members.tolist())
        doubt = 0.0
        for shape in shapes:
            if shape == best.shape or shape.pattern is Pattern.UNIFORM:
                continue
            for rival in self.candidates(shape, best.members):
                if len(rival.members) == len(best.members) and not same_numbers(
                    best.shape, best.scale, shape, rival.scale, systems, self.setting
                ):
                    doubt += 2.0 ** (best.bits - rival.bits)
        return Cluster(
            systems=systems,
            shape=best.shape,
            scale=best.scale,
            scale_tolerance=best.scale_tolerance,
            residual=best.residual,
            doubt=doubt,
            evidence=best.evidence,
        )


def _alike(
    members: NDArray[np.int64], scale: NDArray[np.float64], along: NDArray[np.float64]
) -> list[NDArray[np.int64]]:
    """Groups whose scales are the same within what rounding allows."""
    if not len(members):
        return []
    ordered = members[np.argsort(scale[members], kind="stable")]
    scales, allowed = scale[ordered], along[ordered]
    steps = np.diff(scales)
    widest = 2 * (allowed[1:] + allowed[:-1]) * np.maximum(np.abs(scales[1:]), np.abs(scales[:-1]))
    return [np.sort(group) for group in np.split(ordered, np.flatnonzero(steps > widest) + 1)]


def named_scales(shape: Shape, scale: float, setting: Setting, *, relative_tolerance: float) -> list[Scale]:
    """The scales of sizes that may be behind the size of a fitted one; a factor over all units that is off is not 1."""
    found = matching(abs(scale), setting.values, relative_tolerance=relative_tolerance)
    if isinstance(shape, Subset) and shape.ratio is None and shape.natural not in found:
        natural = shape.natural.value(setting.values)
        found += [shape.natural] * (abs(natural / abs(scale) - 1) <= relative_tolerance)
    return [] if isinstance(shape, Uniform) and scale > 0 and found[:1] == [Scale()] else found


def description_bits(shape: Shape, scale: Scale, *, expert: bool) -> float:
    """Length of the text of a shape with a scale; some scales follow from the shape and hardly add to it."""
    if isinstance(shape, Geometric) and (shift := shape.shift(scale)) is not None:
        return shape.bits + _SHIFT_BITS * abs(shift)
    if isinstance(shape, Subset) and shape.ratio is None and scale == shape.natural:
        return shape.bits + _NATURAL_BITS
    return shape.bits + scale.bits(expert=expert)


def same_numbers(
    one: Shape, one_scale: float, two: Shape, two_scale: float, systems: Sequence[System], setting: Setting
) -> bool:
    """Whether two shapes with their scales give the same weights wherever these systems have a gradient."""
    allowed = min(1e-6 + 3 * min(system.tolerance.scale for system in systems), _LOOSEST_SCALE)
    for place in {block.place for system in systems for block in system.blocks}:
        first, second = one.weights(setting, place), two.weights(setting, place)
        if first is None or second is None:
            return False
        largest = np.abs(one_scale * first).max()
        if not np.allclose(one_scale * first, two_scale * second, rtol=0, atol=allowed * largest):
            return False
    return True


def _shapes_read_off(systems: Sequence[System], setting: Setting) -> Iterator[Shape]:
    """Two-level and geometric shapes found in the weights of whole families, or of single parameters where these fail."""
    families: dict[str, list[System]] = defaultdict(list)
    for system in systems:
        families[system.parameter.family].append(system)
    seen: set[Shape] = set()
    for members in families.values():
        noise = max(system.tolerance.error for system in members)
        for of_ranks in (False, True):
            together = solve_lines(members, setting.layout, of_ranks=of_ranks, noise=noise)
            probes = [together]
            if not together.residual <= FIT_MARGIN * noise:
                probes += [
                    solve_lines([member], setting.layout, of_ranks=of_ranks, noise=noise)
                    for member in members[:_PROBES]
                ]
            for lines in probes:
                for shape in read_shapes(lines.levels, setting, of_ranks=of_ranks, stderr=lines.stderr):
                    if shape not in seen:
                        seen.add(shape)
                        yield shape
