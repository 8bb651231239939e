"""What every report says of an assay, put into words and grids once; renderers arrange it and nothing is judged."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gradassay.goldens.assay.result import Assay, Finding, JointFinding, Law, Verdict
from gradassay.goldens.faults import Fault, load_catalogue
from gradassay.goldens.report import numbers
from gradassay.goldens.report.grid import Grid, Weights, grid
from gradassay.goldens.report.printable import printable_parts

CELLS = 64
NAMED_TIES = 2
OWNERS = 8
PICTURE = "gradassay diff A B --format html --output report.html draws the weights and lists every parameter"
"""Where to look next, for the reports that cannot draw."""
MARKS: Mapping[Verdict, str] = {
    Verdict.AGREE: "✓",
    Verdict.DIVERGE: "✗",
    Verdict.INCONCLUSIVE: "?",
    Verdict.INCOMPLETE: "!",
    Verdict.INCOMPARABLE: "!",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownFault:
    """A public report with the same signature; title and where are empty where the catalogue does not hold the id."""

    id: str
    title: str
    where: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FindingView:
    """One finding in words. grids: the weights, one grid an owner where owners differ, equal neighbours put together;
    pictures: the same cell by cell where that is no more than CELLS a side. more_owners: how many there are beyond the
    OWNERS that are shown.
    """

    families: str
    count: str
    law: Law
    value: str
    ties: str
    residual: str
    sentence: str
    faults: tuple[KnownFault, ...]
    grids: tuple[Grid, ...]
    pictures: tuple[Grid, ...]
    more_owners: int
    stderr: str
    segments: str
    sixteenths: Grid | None
    parameters: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """One assay in words. tally: numbers of parameters by verdict; power: factor by family, both in reading order.

    notes: those of the assay that its sentence does not say already.
    """

    assay: Assay
    mark: str
    sentence: str
    findings: tuple[FindingView, ...]
    tally: tuple[tuple[str, int], ...]
    power: tuple[tuple[str, str], ...]
    notes: tuple[str, ...]
    next_steps: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class JointView:
    """One law that explains several assays; formula is empty where no one law does."""

    families: str
    formula: str
    sentence: str
    cells: tuple[str, ...]
    faults: tuple[KnownFault, ...]


def view(assay: Assay) -> View:
    """The assay in words, its texts made printable."""
    assay = printable_parts(assay)
    catalogue = _catalogue()
    findings = tuple(_finding(finding, catalogue) for finding in assay.findings)
    tally = Counter(parameter.verdict for parameter in assay.parameters)
    return View(
        assay=assay,
        mark=MARKS[assay.verdict],
        sentence=assay.sentence,
        findings=findings,
        tally=tuple((str(verdict), tally[verdict]) for verdict in Verdict if tally[verdict]),
        power=tuple((family, numbers.power(value)) for family, value in sorted(assay.power.items())),
        notes=tuple(note for note in assay.notes if note not in assay.sentence),
        next_steps=next_steps([assay], findings),
    )


def joint_view(finding: JointFinding) -> JointView:
    """A joint law in words, its texts made printable."""
    finding = printable_parts(finding)
    families = ", ".join(finding.families)
    plain = f"{families}: {finding.law.formula} in {len(finding.cells)} of {len(finding.cells)} runs"
    return JointView(
        families=families,
        formula=finding.law.formula if finding.law.formula.startswith("w[") else "",
        sentence=finding.sentence or plain,
        cells=finding.cells,
        faults=_known(finding.known_faults, _catalogue()),
    )


def _catalogue() -> Mapping[str, Fault]:
    return {fault.id: fault for fault in load_catalogue()}


def _known(ids: Sequence[str], catalogue: Mapping[str, Fault]) -> tuple[KnownFault, ...]:
    known = []
    for name in ids:
        fault = catalogue.get(name)
        known.append(KnownFault(id=name, title=fault.title if fault else "", where=fault.report if fault else ""))
    return tuple(known)


def _finding(finding: Finding, catalogue: Mapping[str, Fault]) -> FindingView:
    law = finding.law
    families = ", ".join(finding.families)
    sentence = finding.sentence or f"{finding.count} of {finding.of} {families} parameters follow this law"
    solved: list[tuple[int | None, Weights]] = [(owner.rank, owner.weights) for owner in finding.owners or ()]
    if not solved and finding.weights:
        solved.append((None, finding.weights))
    shown = solved[:OWNERS]
    return FindingView(
        families=families,
        count=f"{finding.count} of {finding.of}",
        law=law,
        value=numbers.factor(law.value),
        ties=", ".join(law.ties),
        residual=numbers.error(finding.residual),
        sentence=sentence.removesuffix(f": {law.formula}"),
        faults=_known(finding.known_faults, catalogue),
        grids=tuple(grid(weights, owner=rank) for rank, weights in shown),
        pictures=tuple(grid(weights, owner=rank, compact=_large(weights)) for rank, weights in shown),
        more_owners=len(solved) - len(shown),
        stderr=numbers.error(finding.weights_stderr),
        segments=_segments(finding.segments),
        sixteenths=grid([finding.segments], axes=("", ""), compact=False) if finding.segments else None,
        parameters=finding.parameters,
    )


def _large(weights: Weights) -> bool:
    return max(len(weights), *map(len, weights)) > CELLS


def _segments(segments: Sequence[float | None] | None) -> str:
    """Ratios by sixteenth of the tensor, equal neighbours put together: `1–4: 1, 5–16: 2`."""
    if not segments:
        return ""
    runs: list[tuple[int, int, str]] = []
    for number, text in enumerate(map(numbers.factor, segments), start=1):
        if runs and runs[-1][2] == text:
            runs[-1] = (runs[-1][0], number, text)
        else:
            runs.append((number, number, text))
    return ", ".join(f"{first}: {text}" if first == last else f"{first}–{last}: {text}" for first, last, text in runs)


def next_steps(assays: Sequence[Assay], findings: Sequence[FindingView]) -> tuple[str, ...]:
    """What to do after reading these assays and all of their findings."""
    steps: dict[str, None] = {}
    known = dict.fromkeys(fault.id for finding in findings for fault in finding.faults if fault.title)
    if known:
        first, *others = known
        also = f" (also {', '.join(others)})" if others else ""
        steps[f"gradassay faults show {first} says which releases have it and what it takes to see it{also}"] = None
    for finding in findings:
        law = finding.law
        if law.ties and law.separated_by:
            more = f" and {len(law.ties) - NAMED_TIES} more" if len(law.ties) > NAMED_TIES else ""
            ties = f"{', '.join(law.ties[:NAMED_TIES])}{more}"
            steps[f"a run in layout {law.separated_by} tells {law.formula.removeprefix('w[r,m] = ')} from {ties}"] = (
                None
            )
    verdicts = {assay.verdict for assay in assays}
    if Verdict.INCONCLUSIVE in verdicts:
        steps["a layout with other units may show what was unobserved: gradassay plan proposes layouts"] = None
    if Verdict.INCOMPARABLE in verdicts:
        steps["gradassay golden list shows which problems and dtype profiles have a golden"] = None
    if any(assay.unmatched_a or assay.unmatched_b for assay in assays):
        steps["parameters match by canonical name (unsharded, experts one by one) and shape"] = None
    return tuple(steps)
