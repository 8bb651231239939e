"""Which faults are put into which records."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from gradassay.goldens.errors import UsageError
from gradassay.goldens.golden import Golden
from gradassay.goldens.layout import Layout
from gradassay.goldens.record import Record
from gradassay.harness.controls.owners import owners
from gradassay.harness.faults import InjectableFault, Site, parse_fault
from gradassay.harness.faults.disagreement import RankDisagreement
from gradassay.harness.faults.kept import Kept
from gradassay.harness.problems.protocol import Problem

FAULTS: tuple[tuple[str, str], ...] = (
    *(
        ("uniform", f"scale={scale}")
        for scale in ("dp", "1/dp", "ep", "1/ep", "edp", "1/edp", "accum", "1/accum", "2", "1/2", "1.05", "65536")
    ),
    ("sign", ""),
    ("zero", ""),
    ("missing", ""),
    ("non-finite", ""),
    ("geometric", "base=dp,scale=dp"),
    ("geometric", "base=dp,scale=1"),
    ("geometric", "base=1/2,scale=1"),
    ("linear", ""),
    ("linear", "rising=true"),
    ("last-only", ""),
    ("last-only", "scale=accum"),
    ("first-only", ""),
    ("micro-subset", ""),
    ("rank-subset", ""),
    ("rank-subset", "scale=2"),
    ("token-weighting", ""),
    ("token-weighting", "over=rank"),
    ("token-weighting", "over=micro"),
    ("term", "scale=1/dp"),
    ("term", "scale=accum"),
    ("permuted", ""),
    ("unexplained", ""),
    ("unreduced", ""),
    ("partly-unreduced", ""),
    ("own-again", ""),
    ("reduced-again", ""),
    ("rank-disagreement", ""),
    ("clipped", ""),
)
"""Kinds of fault and their settings."""

LEAST_EFFECT = 0.05
"""What moves no parameter further than this, relative to the truth, is a question of power and not of kind."""

_FIRST = tuple({name: (name, settings) for name, settings in reversed(FAULTS)}.values())[::-1]

MOST_RECORDS = 3
"""Records of different layouts that the faults are put into."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """A fault in a record. text: the fault as `gradassay record --fault` takes it. kind: without its family."""

    text: str
    kind: str
    fault: InjectableFault
    record: Record
    site: Site

    def __str__(self) -> str:
        return f"{self.text} in {self.site.layout}"


def trials(golden: Golden, records: Mapping[str, Record], problem: Problem) -> Iterator[Trial]:
    """Faults put into honest records of different layouts, as far as they can be: in the layout with most chances every kind
    with all its settings into all parameters at once, and with the first of its settings into every family alone; in the
    other layouts with the first of its settings.

    records: references of the golden by name. Left out is what changes nothing in a layout or a family.
    """
    families = ("all", *dict.fromkeys(parameter.family for parameter in golden.header.parameters))
    for number, record in enumerate(chosen(records)):
        site = Site(problem=problem, layout=record.header.layout, dtype=str(record.header.dtype))
        held = _held(site, record)
        for name, settings in FAULTS if number == 0 else _FIRST:
            for family in families if number == 0 and (name, settings) in _FIRST else families[:1]:
                text = ":".join(filter(None, (name, family, settings)))
                try:
                    fault = parse_fault(text)
                    fault.check(site)
                    effects = fault.effects(site, golden.bases[1])
                except UsageError:
                    continue
                if not held and isinstance(fault, Kept | RankDisagreement):
                    continue
                if max(effects.values(), default=0.0) >= LEAST_EFFECT:
                    yield Trial(
                        text=text, kind=":".join(filter(None, (name, settings))), fault=fault, record=record, site=site
                    )


def chosen(records: Mapping[str, Record]) -> list[Record]:
    """One record of each layout, those in which most can go wrong first, at most MOST_RECORDS."""
    found: dict[Layout, Record] = {}
    for record in records.values():
        known = found.get(record.header.layout)
        if known is None or (_sharded(known) and not _sharded(record)):
            found[record.header.layout] = record
    return sorted(found.values(), key=_chances, reverse=True)[:MOST_RECORDS]


def _held(site: Site, record: Record) -> bool:
    """Whether it is known which ranks hold a parameter, and that they hold all of it."""
    if _sharded(record):
        return False
    try:
        return all(owners(site, parameter) for parameter in record.header.parameters)
    except UsageError:
        return False


def _sharded(record: Record) -> bool:
    return any(parameter.shards is not None for parameter in record.header.parameters)


def _chances(record: Record) -> tuple[int, bool, int]:
    """In how many ways a step of this layout can go wrong."""
    layout = record.header.layout
    axes = (layout.dp > 1, layout.accum > 1, layout.ep > 1, layout.edp > 1, layout.accum > 2)
    return sum(axes), not _sharded(record), layout.units
