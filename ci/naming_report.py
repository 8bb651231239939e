"""How often a law is named right, tied with the right one, or wrong, with layouts drawn at random; writes docs/naming.md.

1. PYTHONPATH=tests python ci/naming_report.py
2. PYTHONPATH=tests python ci/naming_report.py --draws 100 --page naming.md
Exit code 0 where no law was wrong, nothing went unseen and planned layouts left no tie, else 1.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

import builders
from gradassay.goldens.assay.compare import assay_record
from gradassay.goldens.assay.joint import explain_jointly
from gradassay.goldens.assay.plan import plan_layouts
from gradassay.goldens.assay.result import Law
from gradassay.goldens.errors import UsageError
from gradassay.goldens.golden import Golden
from gradassay.goldens.layout import Layout
from gradassay.goldens.record import Record
from gradassay.harness.controls import FAULTS, altered
from gradassay.harness.faults import InjectableFault, Site, judge, parse_fault
from gradassay.harness.faults.weighted import WeightedFault

ROOT = Path(__file__).parent.parent
UNITS, EXPERTS, RANKS = 60, 12, 12
OUTCOMES = ("right", "tied", "wrong", "unseen")
FAMILIES = ("all", "dense", "expert")
SETS = ("micro-subset", "rank-subset")
SHAPES = {
    "dense": [(24, 16), (24, 16), (60, 40)],
    "expert": [(40, 36)] * 2,
    "norm": [(64,), (64,)],
}

_HEAD = """# Naming under ambiguity

Layouts are drawn at random (dp up to {ranks}, ep a divisor of it, 1 to 5 micro-batches), and so are faults of every
kind and setting that goldens are tried on ([goldens.md](goldens.md)) and the parameters that they are put into.
**Right**: the law that the report puts first is the one put in, spelled in any way that is the same by definition.
**Tied**: another law gives the same numbers in this layout; the report puts that one first and lists the right one,
with a layout that would tell them apart. **Wrong**: neither. Written by `make naming` ({draws} draws, seed {seed}).

| kind | right | tied | wrong | unseen |
| --- | ---: | ---: | ---: | ---: |
"""

_PLANNED = """
## In planned layouts

`gradassay plan --ranks {ranks} --units {units}` proposes {layouts}. Each fault that is weights on units was put
into records of all of them, which were explained jointly. Sets of ranks or micro-batches are numbered in one layout
and are left out:

| | laws |
| --- | ---: |
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """A made-up problem with its golden."""

    toy: Any
    problem: Any
    golden: Golden

    @classmethod
    def make(cls, seed: int) -> World:
        """One with experts, all of whose units differ."""
        toy = builders.make_toy(families=SHAPES, units=UNITS, seed=seed)
        problem = SimpleNamespace(
            name=toy.problem.name,
            objective=toy.objective,
            terms=(),
            parameters=toy.parameters,
            tokens=lambda unit: toy.tokens[unit],
            experts=EXPERTS,
        )
        return cls(toy=toy, problem=problem, golden=builders.make_golden(toy))

    def record(self, layout: Layout, seed: int) -> Record:
        """An honest one, whose rounding is drawn from numbers of its own."""
        return builders.make_record(self.toy, layout=layout, seed=10_000 + seed)

    def site(self, layout: Layout) -> Site:
        """Where faults are put in."""
        return Site(problem=self.problem, layout=layout)


def main(arguments: Sequence[str] | None = None) -> int:
    """Writes the page; 1 where a goal is missed."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("--draws", type=int, default=600)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--page", type=Path, default=ROOT / "docs" / "naming.md")
    given = parser.parse_args(arguments)
    world = World.make(given.seed)
    counts: dict[str, Counter[str]] = {}
    wrong: list[str] = []
    for kind, outcome, text in drawn(world, given.draws, given.seed):
        counts.setdefault(kind, Counter())[outcome] += 1
        if outcome in ("wrong", "unseen"):
            wrong.append(f"{outcome}: {text}")
    layouts, planned = jointly(world, given.seed)
    head = _HEAD.format(ranks=RANKS, draws=given.draws, seed=given.seed)
    tail = _PLANNED.format(ranks=8, units=24, layouts=", ".join(map(str, layouts)))
    tail += "".join(f"| {outcome} | {planned[outcome]} |\n" for outcome in OUTCOMES)
    lines = "".join(f"\n- {line}" for line in wrong)
    given.page.write_text(head + _rows(counts) + lines + tail, encoding="utf-8")
    print("\n".join(wrong) or "no law was wrong", dict(planned), file=sys.stderr)
    return 1 if wrong or planned["wrong"] or planned["unseen"] or planned["tied"] else 0


def _rows(counts: Mapping[str, Counter[str]]) -> str:
    total = sum(counts.values(), Counter())
    rows = [*sorted(counts.items()), ("**all**", total)]
    return "".join(f"| {kind} | {' | '.join(str(row[name]) for name in OUTCOMES)} |\n" for kind, row in rows)


def drawn(world: World, draws: int, seed: int) -> Iterator[tuple[str, str, str]]:
    """Kind, outcome and text of so many faults."""
    random = np.random.default_rng(seed)
    done = 0
    while done < draws:
        dp = int(random.integers(1, RANKS + 1))
        ep = int(random.choice([size for size in range(1, dp + 1) if dp % size == 0 and EXPERTS % size == 0]))
        layout = Layout(dp=dp, ep=ep, accum=int(random.integers(1, 6)))
        name, settings = FAULTS[random.integers(len(FAULTS))]
        text = ":".join(filter(None, (name, str(random.choice(FAMILIES)), settings)))
        site = world.site(layout)
        try:
            fault = parse_fault(text)
            fault.check(site)
            effects = fault.effects(site, world.golden.bases[1])
            record = altered(world.record(layout, done), fault, site, world.golden)
        except UsageError:
            continue
        if not effects:
            continue
        done += 1
        yield name, outcome_of(world, fault, record, site), f"{text} in {layout}"


def outcome_of(world: World, fault: InjectableFault, record: Record, site: Site) -> str:
    """Whether the fault was named right, tied, wrong, or not seen."""
    assay = assay_record(record, world.golden)
    judgement = judge(fault, assay, world.golden, site)
    if not judgement.detected:
        return "unseen"
    if not judgement.named:
        return "wrong"
    expected = {text for law in fault.expected(site) for text in law.formulas}
    return "right" if all(_first(finding.law, expected) for finding in assay.findings) else "tied"


def _first(law: Law, expected: set[str]) -> bool:
    text = law.formula.partition(" = ")[2] or law.formula
    return not expected or text in expected or law.scale in expected


def jointly(world: World, seed: int) -> tuple[tuple[Layout, ...], Counter[str]]:
    """The layouts of a plan, and the outcomes of faults put into all of them at once."""
    plan = plan_layouts(max_ranks=8, max_units=24, allowed=lambda layout: EXPERTS % layout.ep == 0)
    honest = {layout: world.record(layout, seed) for layout in plan.layouts}
    outcomes: Counter[str] = Counter()
    for name, settings in FAULTS:
        for family in FAMILIES:
            try:
                fault = parse_fault(":".join(filter(None, (name, family, settings))))
            except UsageError:
                continue
            if isinstance(fault, WeightedFault) and name not in SETS and (outcome := _joint(world, fault, honest)):
                outcomes[outcome] += 1
    return plan.layouts, outcomes


def _joint(world: World, fault: WeightedFault, honest: Mapping[Layout, Record]) -> str:
    """The outcome in all layouts together, "" where the fault changes nothing in any of them."""
    assays, changed, expected = [], 0, set[str]()
    for layout, record in honest.items():
        site = world.site(layout)
        changed += not np.allclose(fault.weights(site), 1)
        expected |= set(fault.formulas(site))
        assays.append(assay_record(altered(record, fault, site, world.golden), world.golden))
    if not changed:
        return ""
    findings = explain_jointly(assays)
    if not findings:
        return "unseen"
    laws = [finding.law for finding in findings]
    if all(_first(law, expected) for law in laws):
        return "tied" if any(law.ties for law in laws) else "right"
    return "tied" if all(set(law.ties) & expected or _first(law, expected) for law in laws) else "wrong"


if __name__ == "__main__":
    sys.exit(main())
