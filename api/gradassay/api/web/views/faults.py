"""The catalogue of public faults, searched."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from gradassay.goldens.faults import Fault, load_catalogue


@dataclass(frozen=True, slots=True, kw_only=True)
class Listed:
    """A public fault and how many runs look like it."""

    fault: Fault
    runs: int


def listed(counts: Mapping[str, int], words: str = "") -> tuple[Listed, ...]:
    """The faults that hold every one of these words, those that runs look like first, then as in the catalogue."""
    wanted = words.casefold().split()
    found = [
        Listed(fault=fault, runs=counts.get(fault.id, 0))
        for fault in load_catalogue()
        if all(word in _text(fault) for word in wanted)
    ]
    return tuple(sorted(found, key=lambda one: -one.runs))


def find(name: str) -> Fault | None:
    """The fault of this id."""
    return next((fault for fault in load_catalogue() if fault.id == name), None)


def _text(fault: Fault) -> str:
    parts = (
        fault.id, fault.title, fault.report, fault.framework, fault.pattern, *fault.laws, *fault.families,
        fault.needs, fault.note, fault.broken, fault.fixed,
    )  # fmt: skip
    return " ".join(parts).casefold()
