"""Public reports of wrong gradients, and which of them a law looks like."""

from __future__ import annotations

import tomllib
from collections.abc import Collection
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from pydantic import TypeAdapter

from gradassay.goldens.assay.result import Pattern


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One public report. laws: right-hand sides of w[r,m] that it leaves, the general form first.

    families: who is affected; "all" is every parameter of the model, "some" any. reproduced: seen on the broken release.
    """

    id: str
    title: str
    report: str
    framework: str
    families: tuple[str, ...]
    pattern: Pattern
    laws: tuple[str, ...]
    broken: str = ""
    fixed: str = ""
    needs: str = ""
    note: str = ""
    reproduced: bool = False

    @property
    def frameworks(self) -> tuple[str, ...]:
        """Names of the frameworks that it was reported of."""
        return tuple(name.strip() for name in self.framework.split(","))

    def explains(self, pattern: Pattern, laws: Collection[str], families: Collection[str], *, whole: bool) -> bool:
        """Whether a finding has this signature. laws: its formula and ties. whole: it covers every parameter there is."""
        if "all" in self.families:
            affected = whole
        else:
            affected = "some" in self.families or set(families) <= set(self.families)
        alike = any(law in laws for law in self.laws) if self.laws else pattern is self.pattern
        # One micro step leaves nothing of a geometric law to see but its last factor.
        flat = pattern is Pattern.UNIFORM and self.pattern is Pattern.GEOMETRIC
        return affected and alike and (pattern is self.pattern or flat)


@dataclass(frozen=True, slots=True, kw_only=True)
class Convention:
    """A legitimate choice of scale that a candidate may declare."""

    id: str
    title: str
    report: str
    families: tuple[str, ...]
    scale: str


def _rows(kind: Any, table: str) -> Any:
    text = files("gradassay.goldens.faults").joinpath("catalogue.toml").read_text(encoding="utf-8")
    return TypeAdapter(tuple[kind, ...]).validate_python(tomllib.loads(text)[table])


@cache
def load_catalogue() -> tuple[Fault, ...]:
    """Every public report, in the order of the catalogue."""
    found: tuple[Fault, ...] = _rows(Fault, "fault")
    return found


@cache
def load_conventions() -> tuple[Convention, ...]:
    """Every known convention."""
    found: tuple[Convention, ...] = _rows(Convention, "convention")
    return found


def look_alikes(
    pattern: Pattern, laws: Collection[str], families: Collection[str], *, whole: bool, framework: str = ""
) -> tuple[str, ...]:
    """Ids of public reports with this signature, those of the same framework first."""
    found = [fault for fault in load_catalogue() if fault.explains(pattern, laws, families, whole=whole)]
    found.sort(
        key=lambda fault: (
            framework not in fault.frameworks,
            whole and "all" not in fault.families,
        )
    )
    return tuple(fault.id for fault in found)
