"""Groups of the inbox as one sentence each, and what they can be narrowed to."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from gradassay.api.runs.run import Run
from gradassay.api.web.words import count
from gradassay.goldens.faults import load_catalogue

LISTED_RUNS = 6
NAMED_FAMILIES = 3
_REPORT = re.compile(r"(.+?) (?:issue|pull request) (\d+)")


class Divergence(Protocol):
    """What a sentence needs to know of a group."""

    @property
    def families(self) -> Sequence[str]: ...
    @property
    def formula(self) -> str: ...
    @property
    def pattern(self) -> str: ...
    @property
    def count(self) -> int: ...
    @property
    def layouts(self) -> Sequence[str]: ...
    @property
    def known_faults(self) -> Sequence[str]: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Narrowing:
    """Which groups are shown; what is empty narrows nothing."""

    problem: str = ""
    dtype: str = ""
    framework: str = ""

    def fits(self, run: Run) -> bool:
        """Whether the run is one of those."""
        return all(
            wanted in ("", found)
            for wanted, found in (
                (self.problem, run.problem),
                (self.dtype, run.dtype),
                (self.framework, run.framework),
            )
        )


def sentence(group: Divergence) -> str:
    """The group in one sentence: "16 expert parameters, w = ep, in 3 layouts, like DeepSpeed #6545"."""
    parts = [_parameters(group) if group.families else group.pattern]
    parts.append(group.formula.replace("w[r,m]", "w") or group.pattern)
    parts.append(f"in {count(len(group.layouts), 'layout')}")
    if group.known_faults:
        parts.append(f"like {report(group.known_faults[0])}")
    return ", ".join(dict.fromkeys(parts))


def _parameters(group: Divergence) -> str:
    if len(group.families) > NAMED_FAMILIES:
        return f"{count(group.count, 'parameter')} of {len(group.families)} families"
    return count(group.count, f"{' and '.join(group.families)} parameter")


def report(fault: str) -> str:
    """A public report, by id or title, as people call it: `DeepSpeed #6545`; the same text where nothing says so."""
    for known in load_catalogue():
        if fault in (known.id, known.title) and (match := _REPORT.match(known.report)):
            return f"{match[1]} #{match[2]}"
    return fault


def choices(runs: Mapping[str, Run]) -> dict[str, tuple[str, ...]]:
    """What the runs of all groups can be narrowed to, by the name of the filter."""
    return {
        name: tuple(sorted({getattr(run, name) for run in runs.values()})) for name in ("problem", "dtype", "framework")
    }
