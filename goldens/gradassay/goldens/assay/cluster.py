"""Which parameters diverge alike: the shape that explains most of them goes first, then the rest is explained anew."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from gradassay.goldens.assay.result import Pattern
from gradassay.goldens.assay.scale import Scale, matching
from gradassay.goldens.assay.shapes import Geometric, Setting, Shape, Uniform, known_shapes, read_shapes
from gradassay.goldens.assay.system import FIT_MARGIN, Fit, System, solve_lines

# A law is worth more than the numbers it explains only where it is right about so many more bits than it takes to write.
LEAST_EVIDENCE = 6.0
_UNMATCHED_SCALE_BITS = 12.0
_SHIFT_BITS = 0.6
_PROBES = 6


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
    shape: Shape
    members: tuple[tuple[System, Fit], ...]
    bits: float
    evidence: float


def cluster(systems: Sequence[System], setting: Setting) -> tuple[list[Cluster], list[System]]:
    """Clusters that a shape explains, largest first, and the systems that none does."""
    remaining = list(systems)
    clusters: list[Cluster] = []
    stages = 1 + max((system.parameter.stage for system in systems), default=0)
    while remaining:
        owners = any(system.owned for system in remaining)
        shapes = list(known_shapes(setting, stages=stages, owners=owners))
        shapes += list(_shapes_read_off(remaining, setting))
        candidates = [found for shape in shapes for found in _candidates(shape, remaining, setting)]
        if not candidates:
            break
        best = min(candidates, key=lambda candidate: (-len(candidate.members), candidate.bits))
        chosen = tuple(system for system, _ in best.members)
        clusters.append(_cluster(best, chosen, shapes, setting))
        remaining = [system for system in remaining if system not in chosen]
    return clusters, remaining


def _candidates(shape: Shape, systems: Sequence[System], setting: Setting) -> Iterator[_Candidate]:
    fits = [(system, fit) for system in systems if (fit := system.fit(shape, setting)) and system.accepts(fit)]
    if isinstance(shape, Uniform):
        fits = [(system, fit) for system, fit in fits if abs(fit.scale - 1) > system.tolerance.scale]
    for group in _alike(fits):
        scale = float(np.median([fit.scale for _, fit in group]))
        tolerance = _scale_tolerance([system for system, _ in group])
        expert = all(system.parameter.family == "expert" for system, _ in group)
        named = named_scales(shape, scale, setting, relative_tolerance=tolerance)
        bits = min(
            (description_bits(shape, match, expert=expert) for match in named),
            default=shape.bits + _UNMATCHED_SCALE_BITS,
        )
        evidence = sum(system.evidence for system, _ in group) - bits
        if not named:
            evidence -= max(system.evidence / max(1, system.rank) for system, _ in group)
        if evidence >= LEAST_EVIDENCE or isinstance(shape, Uniform):
            yield _Candidate(shape=shape, members=tuple(group), bits=bits, evidence=evidence)


def named_scales(shape: Shape, scale: float, setting: Setting, *, relative_tolerance: float) -> list[Scale]:
    """The scales of sizes that may be behind the size of a fitted one; a factor over all units that is off is not 1."""
    found = matching(abs(scale), setting.values, relative_tolerance=relative_tolerance)
    return [] if isinstance(shape, Uniform) and scale > 0 and found[:1] == [Scale()] else found


def description_bits(shape: Shape, scale: Scale, *, expert: bool) -> float:
    """Length of the text of a shape with a scale; a power of a series' own base only shifts its exponent."""
    shift = shape.shift(scale) if isinstance(shape, Geometric) else None
    return shape.bits + (scale.bits(expert=expert) if shift is None else _SHIFT_BITS * abs(shift))


def _alike(fits: list[tuple[System, Fit]]) -> Iterator[list[tuple[System, Fit]]]:
    """Groups whose scales are the same within what rounding allows."""
    group: list[tuple[System, Fit]] = []
    for system, fit in sorted(fits, key=lambda pair: pair[1].scale):
        if group:
            last_system, last = group[-1]
            allowed = 2 * (system.tolerance.scale + last_system.tolerance.scale)
            if abs(fit.scale - last.scale) > allowed * max(abs(fit.scale), abs(last.scale)):
                yield group
                group = []
        group.append((system, fit))
    if group:
        yield group


def _scale_tolerance(systems: Sequence[System]) -> float:
    return max(1.5 * min(system.tolerance.scale for system in systems), 1e-9)


def _cluster(best: _Candidate, chosen: tuple[System, ...], shapes: Sequence[Shape], setting: Setting) -> Cluster:
    scale = float(np.median([fit.scale for _, fit in best.members]))
    residual = float(np.sqrt(np.mean([fit.residual**2 for _, fit in best.members])))
    doubt = 0.0
    for shape in shapes:
        if shape == best.shape or shape.pattern is Pattern.UNIFORM:
            continue
        for rival in _candidates(shape, chosen, setting):
            if len(rival.members) == len(chosen) and not same_numbers(
                best.shape, scale, shape, rival.members[0][1].scale, chosen, setting
            ):
                doubt += 2.0 ** (best.bits - rival.bits)
    return Cluster(
        systems=chosen,
        shape=best.shape,
        scale=scale,
        scale_tolerance=_scale_tolerance(chosen),
        residual=residual,
        doubt=doubt,
        evidence=best.evidence,
    )


def same_numbers(
    one: Shape, one_scale: float, two: Shape, two_scale: float, systems: Sequence[System], setting: Setting
) -> bool:
    """Whether two shapes with their scales give the same weights wherever these systems have a gradient."""
    allowed = 1e-6 + 3 * min(system.tolerance.scale for system in systems)
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
