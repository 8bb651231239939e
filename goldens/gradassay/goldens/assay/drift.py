"""Golden against golden: whether a new version differs by rounding, or by something that somebody changed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from math import isfinite
from typing import Any

from gradassay.goldens.assay.drift_families import FamilyDrift, family_drifts, some_names, unit_names
from gradassay.goldens.golden import Golden
from gradassay.goldens.header import NoiseFloor

CAUSES = ("torch", "cuda", "nccl", "gpu", "device", "driver", "processor", "backend", "threads", "numpy", "python")
"""Facts of an environment that may move gradients by rounding, the likeliest first."""
SURELY = 5
"""Of CAUSES: where one of these has changed, the others are not suspected."""
UNCHANGED = "no known change of the environment"
NOISE_FACTOR = 3.0
"""By how much a noise floor may differ that was only measured anew."""


class DriftKind(StrEnum):
    """What the difference of two versions comes to."""

    NONE = "none"
    ROUNDING = "rounding"
    STRUCTURED = "structured"


@dataclass(frozen=True, slots=True, kw_only=True)
class Drift:
    """The difference of two goldens. changes: what their headers state differently, sentences. environment: facts that
    changed, from and to. cause: what is suspected where it is rounding. sentence: all of it in one.
    """

    kind: DriftKind
    sentence: str
    cause: str = ""
    changes: tuple[str, ...] = ()
    families: tuple[FamilyDrift, ...] = ()
    environment: Mapping[str, tuple[str, str]] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """The drift as JSON values; numbers that are not finite are null."""
        return {
            "kind": str(self.kind),
            "sentence": self.sentence,
            "cause": self.cause,
            "changes": list(self.changes),
            "environment": {name: list(values) for name, values in self.environment.items()},
            "families": [
                {
                    "family": one.family,
                    "parameters": one.parameters,
                    "moved": one.moved,
                    "broken": list(one.broken),
                    "largest": _number(one.largest),
                    "allowed": _number(one.allowed),
                    "ratio": _number(one.ratio),
                    "sentence": one.sentence,
                }
                for one in self.families
            ],
        }


def assay_drift(old: Golden, new: Golden) -> Drift:
    """How version `new` differs from version `old`, unit by unit.

    Rounding moves every unit's gradient by no more than honest runs are apart, in no direction of its own. What moves one
    further, along itself, in some units only, or changes what the goldens state (problem, units, objective, parameters,
    noise floor) is structured: somebody changed something, and a reviewer must say why that is right.
    """
    environment = changed_environment(old.header.environment, new.header.environment)
    stated = _stated(old, new)
    families = () if old.header.problem != new.header.problem else family_drifts(old, new)
    sentences = [*stated, *(one.sentence for one in families if one.sentence)]
    if sentences:
        kind, cause, sentence = DriftKind.STRUCTURED, "", f"structured: {'; '.join(sentences)}"
    elif any(one.moved for one in families) or old.header.noise != new.header.noise:
        kind, cause = DriftKind.ROUNDING, suspected_cause(environment)
        sentence = f"rounding: {_moved(families)}; suspected cause: {cause}"
    else:
        kind, cause, sentence = DriftKind.NONE, "", "none: every unit's gradient and the noise floor are the same"
    return Drift(kind=kind, sentence=sentence, cause=cause, changes=stated, families=families, environment=environment)


def changed_environment(old: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, tuple[str, str]]:
    """The facts that differ, from and to, CAUSES first; a fact that only one has counts as changed."""
    names = [*CAUSES, *sorted((old.keys() | new.keys()) - set(CAUSES))]
    pairs = {name: (str(old.get(name, "unknown")), str(new.get(name, "unknown"))) for name in names}
    return {name: pair for name, pair in pairs.items() if old.get(name) != new.get(name)}


def suspected_cause(environment: Mapping[str, tuple[str, str]]) -> str:
    """What rounding is blamed on: `torch 2.12.0 -> 2.13.0, cuda 12.8 -> 13.0`."""
    changed = [name for name in CAUSES if name in environment]
    likely = [name for name in changed if name in CAUSES[:SURELY]] or changed
    return ", ".join(f"{name} {' -> '.join(environment[name])}" for name in likely) or UNCHANGED


def _stated(old: Golden, new: Golden) -> tuple[str, ...]:
    """What the headers state differently and no rounding does."""
    one, two = old.header, new.header
    if one.problem != two.problem:
        return (f"it is of problem {two.problem.name} ({two.problem.digest}) instead of ({one.problem.digest})",)
    found: list[str] = []
    for title, before, after in (
        ("dtype profile", _profile(old), _profile(new)),
        ("objective", one.objective, two.objective),
        ("terms", ", ".join(one.terms), ", ".join(two.terms)),
        ("steps", ", ".join(map(str, sorted(old.bases))), ", ".join(map(str, sorted(new.bases)))),
        ("units", len(one.units), len(two.units)),
        ("update before the second step", _update(old), _update(new)),
    ):
        if before != after:
            found.append(f"{title} {before or 'none'} -> {after or 'none'}")
    retold = [u for u, (a, b) in enumerate(zip(one.units, two.units, strict=False)) if a.tokens != b.tokens]
    if retold:
        found.append(f"other token counts in {unit_names(retold, min(len(one.units), len(two.units)))}")
    had, has = ({(p.name, p.shape, p.family) for p in side.parameters} for side in (one, two))
    for title, names in (
        ("new or reshaped", [p.name for p in two.parameters if (p.name, p.shape, p.family) not in had]),
        ("gone or reshaped", [p.name for p in one.parameters if (p.name, p.shape, p.family) not in has]),
    ):
        if names:
            found.append(f"{len(names)} parameter{'s' if len(names) > 1 else ''} {title} ({some_names(names)})")
    return tuple(found + _noise(one.noise, two.noise))


def _noise(old: Mapping[str, NoiseFloor], new: Mapping[str, NoiseFloor]) -> list[str]:
    found = []
    for family in sorted(old.keys() | new.keys()):
        if family not in old or family not in new:
            found.append(f"the noise floor of {family} is {'new' if family in new else 'gone'}")
            continue
        before, after = old[family].q999, new[family].q999
        if max(before, after) > NOISE_FACTOR * min(before, after):
            direction = "less power" if after > before else "a stricter tolerance"
            found.append(f"noise floor of {family} {before:.3g} -> {after:.3g}, {direction}")
    return found


def _moved(families: Sequence[FamilyDrift]) -> str:
    moved, count = sum(one.moved for one in families), sum(one.parameters for one in families)
    if not moved:
        return f"all {count} parameters are the same, the noise floor was measured anew"
    largest = max(one.largest for one in families)
    return f"{moved} of {count} parameters moved, by at most {largest:.2g} of their size"


def _profile(side: Golden) -> str:
    dtype = side.header.dtype
    return f"{dtype.parameter}/{dtype.gradient}/{dtype.reduce}"


def _update(side: Golden) -> str:
    second = side.header.second
    return f"{second.update} over {second.units} units" if second else ""


def _number(value: float) -> float | None:
    return value if isfinite(value) else None
