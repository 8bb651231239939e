"""What a golden version holds, put into rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gradassay.goldens.report import numbers


@dataclass(frozen=True, slots=True, kw_only=True)
class FamilyRow:
    """One family: its size, its honest rounding, and the smallest scale error that shows in it ("—": unknown)."""

    family: str
    parameters: int
    elements: int
    q50: float | None
    q999: float | None
    samples: int
    power: str


def families(facts: Mapping[str, Any]) -> tuple[FamilyRow, ...]:
    """The families of the facts of a version, those with the most elements first."""
    noise, power = facts.get("noise", {}), facts.get("power", {})
    rows = []
    for family, sizes in facts.get("families", {}).items():
        floor, least = noise.get(family, {}), power.get(family)
        rows.append(
            FamilyRow(
                family=family,
                parameters=sizes["parameters"],
                elements=sizes["elements"],
                q50=floor.get("q50"),
                q999=floor.get("q999"),
                samples=floor.get("samples", 0),
                power=numbers.ABSENT if least is None else numbers.power(least),
            )
        )
    return tuple(sorted(rows, key=lambda row: (-row.elements, row.family)))


def noise_plot(rows: Sequence[FamilyRow]) -> list[dict[str, Any]]:
    """The noise floors as the page's chart reads them."""
    return [{"family": row.family, "q50": row.q50, "q999": row.q999} for row in rows if row.q999]


@dataclass(frozen=True, slots=True, kw_only=True)
class Changed:
    """One fact of the environment on both sides; "—" where a side does not say."""

    name: str
    before: str
    after: str

    @property
    def differs(self) -> bool:
        """Whether the sides say different things."""
        return self.before != self.after


def environments(before: Mapping[str, Any], after: Mapping[str, Any]) -> tuple[Changed, ...]:
    """Every fact of two environments, those that differ first."""
    rows = [
        Changed(name=name, before=str(before.get(name, numbers.ABSENT)), after=str(after.get(name, numbers.ABSENT)))
        for name in dict.fromkeys((*after, *before))
    ]
    return tuple(sorted(rows, key=lambda row: not row.differs))
