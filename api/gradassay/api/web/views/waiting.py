"""Versions that wait for review, grouped by what made them differ from what is approved."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from gradassay.api.ledger.standing import Status
from gradassay.api.ledger.version import Version
from gradassay.goldens.assay.drift import DriftKind
from gradassay.goldens.errors import UsageError
from gradassay.goldens.store.approval import DEFAULT_CHANNEL

_WANTED = re.compile(r"(.+)@v(\d{1,9})=(\d{1,9})", re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """A version that is to be approved; expected: what its channel pointed to when the page was made, 0 for nothing."""

    name: str
    version: int
    expected: int

    def __str__(self) -> str:
        return f"{self.name}@v{self.version}={self.expected}"

    @classmethod
    def parse(cls, text: str) -> Wanted:
        """What `str` wrote into a form; raises UsageError for anything else."""
        match = _WANTED.fullmatch(text)
        if match is None:
            raise UsageError(f"{text[:80]!r} names no version", hint="load the page again and choose anew")
        return cls(name=match[1], version=int(match[2]), expected=int(match[3]))


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """A version that waits, as the form names it."""

    version: Version
    wanted: Wanted


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Versions that wait for the same cause. kind: of their drift, "" where they were not compared with anything (yet)."""

    kind: str
    cause: str
    members: tuple[Waiting, ...]

    @property
    def together(self) -> bool:
        """Whether they may be approved with one reason: a structured change needs its own."""
        return may_share(self.kind) and len(self.members) > 1


def may_share(kind: str) -> bool:
    """Whether versions with drift of this kind may share the reason of their approval."""
    return kind in (DriftKind.NONE, DriftKind.ROUNDING)


def waiting(versions: Iterable[Version]) -> list[Version]:
    """The versions that nobody has decided about, or only the first of two reviewers."""
    return [version for version in versions if version.status in (Status.PROPOSED, Status.ENDORSED)]


def by_cause(versions: Sequence[Version], channels: Mapping[str, Mapping[str, int]]) -> tuple[Group, ...]:
    """The versions by cause, the largest group first; what needs a reason of its own stands alone."""
    groups: dict[tuple[str, str, str], list[Waiting]] = {}
    for version in versions:
        expected = channels.get(version.name, {}).get(DEFAULT_CHANNEL, 0)
        wanted = Wanted(name=version.name, version=version.version, expected=expected)
        kind, cause = drift_of(version, expected)
        alone = "" if may_share(kind) else str(wanted)
        groups.setdefault((kind, cause, alone), []).append(Waiting(version=version, wanted=wanted))
    found = [Group(kind=kind, cause=cause, members=tuple(members)) for (kind, cause, _), members in groups.items()]
    return tuple(sorted(found, key=lambda group: -len(group.members)))


def drift_of(version: Version, approved: int) -> tuple[str, str]:
    """Kind and cause of how the version differs from v`approved`, the whole sentence where it is no rounding; both empty
    where it has not been compared with that one.
    """
    drift = version.drift
    if drift is None or drift["against"] != approved:
        return "", ""
    return str(drift["kind"]), str(drift["cause"] or drift["sentence"])
