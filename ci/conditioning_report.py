"""What hard units do to laws: many, collinear, doubled, starved and nearly empty ones; writes docs/conditioning.md.

1. PYTHONPATH=tests python ci/conditioning_report.py
2. PYTHONPATH=tests python ci/conditioning_report.py --repeats 3 --page conditioning.md
Exit code 0 where no law was wrong and no broken run passed, else 1.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import builders
from gradassay.goldens.assay.compare import assay_record
from gradassay.goldens.assay.result import Assay, Pattern, Verdict
from gradassay.goldens.golden import Golden
from gradassay.goldens.layout import Layout
from gradassay.goldens.record import Record

ROOT = Path(__file__).parent.parent
SHAPES = {"dense": [(40, 40), (60, 40)], "expert": [(40, 36), (40, 36)], "norm": [(64,)]}
OUTCOMES = ("named", "weights", "unexplained", "inconclusive", "wrong", "passed")

_HEAD = """# Hard units

Units that are many, alike, the same, empty or tiny, on made-up problems with float32 rounding. Into records of
each, faults are put whose weights are known: one unit lost, one rank lost, only the last micro-batch, powers of dp
over micro-batches. **Named**: the weights found are those put in wherever any are given (units that cannot be told
apart have none), and a law says so. **Weights**: they are right, and no law is known for them, as for one unit that
is lost. **Unexplained**: it diverges, and the report has no weights either. **Inconclusive**: the report says that
units were unobserved or power too small. **Wrong**: a law was given whose weights are not those put in. **Passed**:
the broken run agreed. Written by `make naming` ({repeats} repeats).

| units | {outcomes} |
| --- | {dashes} |
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hard:
    """A kind of hard unit. make: (repeat) -> the toy and its layout. healthy: weights that change nothing are not put in."""

    title: str
    make: Callable[[int], tuple[Any, Layout]]


def _many(units: int) -> Hard:
    def make(repeat: int) -> tuple[Any, Layout]:
        return builders.make_toy(families=SHAPES, units=units, seed=repeat), Layout(dp=4, accum=units // 4)

    return Hard(title=f"{units} units", make=make)


def _alike(common: float) -> Hard:
    def make(repeat: int) -> tuple[Any, Layout]:
        return builders.make_toy(families=SHAPES, units=12, common=common, seed=repeat), Layout(dp=4, accum=3)

    return Hard(title=f"12 units, {common:g} times their own size alike", make=make)


def _changed(title: str, change: Callable[[str, np.ndarray], None]) -> Hard:
    def make(repeat: int) -> tuple[Any, Layout]:
        toy = builders.make_toy(families=SHAPES, units=12, seed=repeat)
        for gradients in toy.terms.values():
            for name, values in gradients.items():
                change(name, values)
        return toy, Layout(dp=4, accum=3)

    return Hard(title=title, make=make)


def _doubled(_name: str, values: np.ndarray) -> None:
    values[5] = values[1]


def _starved(name: str, values: np.ndarray) -> None:
    if name.startswith("expert.1"):
        values[[0, 3, 7, 11]] = 0.0


def _empty(name: str, values: np.ndarray) -> None:
    if name.startswith("expert.1"):
        values[:] = 0.0


def _tiny(_name: str, values: np.ndarray) -> None:
    values *= 1e-25


def _uneven(_name: str, values: np.ndarray) -> None:
    values[2] *= 1e-5


HARD: tuple[Hard, ...] = (
    *(_many(units) for units in (4, 12, 24, 48, 64)),
    *(_alike(common) for common in (0.5, 3.0, 30.0, 300.0)),
    _changed("12 units, two of them the same data", _doubled),
    _changed("an expert without tokens in a third of the units", _starved),
    _changed("an expert without tokens in any unit", _empty),
    _changed("all gradients of size 1e-25", _tiny),
    _changed("one unit 100,000 times smaller than the others", _uneven),
)


def faults(layout: Layout) -> Iterator[np.ndarray]:
    """Weights [dp, accum] that differ from 1."""
    whole = np.ones((layout.dp, layout.accum))
    lost = whole.copy()
    lost[2, 0] = 0.0
    yield lost
    rank = whole.copy()
    rank[1] = 0.0
    yield rank
    if layout.accum > 1:
        steps = np.arange(layout.accum, dtype=np.float64)
        yield np.tile((steps == layout.accum - 1).astype(np.float64), (layout.dp, 1))
        yield np.tile(2.0 ** (steps - layout.accum + 1), (layout.dp, 1))


def main(arguments: Sequence[str] | None = None) -> int:
    """Writes the page; 1 where a law was wrong or a broken run passed."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--page", type=Path, default=ROOT / "docs" / "conditioning.md")
    given = parser.parse_args(arguments)
    rows: dict[str, Counter[str]] = {hard.title: tried(hard, given.repeats) for hard in HARD}
    head = _HEAD.format(
        repeats=given.repeats, outcomes=" | ".join(OUTCOMES), dashes=" | ".join("---:" for _ in OUTCOMES)
    )
    given.page.write_text(head + _lines(rows), encoding="utf-8")
    bad = sum(row["wrong"] + row["passed"] for row in rows.values())
    print(f"{bad} wrong laws or broken runs that passed", file=sys.stderr)
    return 1 if bad else 0


def _lines(rows: Mapping[str, Counter[str]]) -> str:
    return "".join(f"| {title} | {' | '.join(str(row[name]) for name in OUTCOMES)} |\n" for title, row in rows.items())


def tried(hard: Hard, repeats: int) -> Counter[str]:
    """How often each outcome came about."""
    found: Counter[str] = Counter()
    for repeat in range(repeats):
        toy, layout = hard.make(repeat)
        golden = builders.make_golden(toy)
        for number, weights in enumerate(faults(layout)):
            record = builders.make_record(
                toy, layout=layout, weights=dict.fromkeys(SHAPES, weights), seed=10_000 + 10 * repeat + number
            )
            found[outcome_of(golden, record, weights)] += 1
    return found


def outcome_of(golden: Golden, record: Record, weights: np.ndarray) -> str:
    """What the assay says of a record with these weights."""
    assay = assay_record(record, golden)
    if assay.verdict is Verdict.AGREE:
        return "passed"
    if assay.verdict is not Verdict.DIVERGE:
        return "inconclusive"
    if not right(assay, weights):
        return "wrong"
    unnamed = [finding for finding in assay.findings if finding.law.pattern is Pattern.UNEXPLAINED]
    if not unnamed:
        return "named"
    return "weights" if all(finding.weights is not None for finding in unnamed) else "unexplained"


def right(assay: Assay, weights: np.ndarray) -> bool:
    """Whether every weight that the report gives is the one put in, to a per cent of the largest."""
    for finding in assay.findings:
        if finding.weights is None:
            continue
        given = np.array(finding.weights, dtype=np.float64)
        off = np.abs(given - weights)[~np.isnan(given)]
        if off.size and off.max() > 0.01 * np.abs(weights).max():
            return False
    return True


if __name__ == "__main__":
    sys.exit(main())
