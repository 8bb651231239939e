"""The report for GitHub: a comment or a job summary, kept below the size that GitHub cuts at."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from gradassay.goldens.assay.result import Assay, JointFinding, ParameterVerdict, Verdict
from gradassay.goldens.report import numbers
from gradassay.goldens.report.grid import Grid
from gradassay.goldens.report.view import PICTURE, FindingView, KnownFault, View, joint_view, view

LIMIT = 60_000
PARAMETERS = 50
NAMES = 40
ROWS = 32
ICONS = {
    Verdict.AGREE: "✅",
    Verdict.DIVERGE: "❌",
    Verdict.INCONCLUSIVE: "❔",
    Verdict.INCOMPLETE: "⚠️",
    Verdict.INCOMPARABLE: "⚠️",
}
_SPECIAL = re.compile(r"([\\`*_{}\[\]#|~>@$])")


def render_markdown(assays: Sequence[Assay], joint: Sequence[JointFinding] = ()) -> str:
    """The report as GitHub Markdown, at most LIMIT characters; what did not fit is said."""
    blocks = [block for finding in joint for block in _joint(finding)]
    for assay in assays:
        blocks.extend(_assay(view(assay)))
    kept: list[str] = []
    size = 0
    for block in blocks:
        if size + len(block) + 2 > LIMIT - 200:
            kept.append(f"_Cut at {LIMIT} characters; `gradassay diff --format html` holds the whole report._")
            break
        kept.append(block)
        size += len(block) + 2
    return "\n\n".join(kept) + "\n"


def escape(text: str) -> str:
    """The text so that Markdown and HTML show it as it is, in one line."""
    html = text.replace("&", "&amp;").replace("<", "&lt;")
    return _SPECIAL.sub(r"\\\1", html).replace("\n", " ")


def code(text: str) -> str:
    """The text as inline code that may stand in a table."""
    if not text:
        return "—"
    longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
    fence = "`" * (longest + 1)
    pad = " " if longest else ""
    return f"{fence}{pad}{text}{pad}{fence}".replace("|", "\\|")


def _joint(finding: JointFinding) -> Iterator[str]:
    shown = joint_view(finding)
    yield f"### {escape(shown.sentence)}"
    law = code(shown.formula) if shown.formula else "No one law"
    lines = [f"{law} holds in {', '.join(map(code, shown.cells))}."]
    yield "\n".join([*lines, *map(_fault, shown.faults)])


def _assay(shown: View) -> Iterator[str]:
    assay = shown.assay
    yield f"### {ICONS[assay.verdict]} {escape(shown.sentence)}"
    sides = " · ".join(
        f"{letter}: {side.kind} {code(side.title or side.ref)}" for letter, side in (("A", assay.a), ("B", assay.b))
    )
    yield f"{sides} · layout {code(str(assay.layout))} · stage {code(assay.stage)}"
    if shown.findings:
        yield "\n".join(_laws(shown.findings))
        yield _families(shown.findings)
    for finding in shown.findings:
        yield from _weights(finding)
    yield from _parameters(assay, [item for item in assay.parameters if item.verdict is not Verdict.AGREE])
    for letter, names in (("A", assay.unmatched_a), ("B", assay.unmatched_b)):
        if names:
            rest = f" and {len(names) - NAMES} more" if len(names) > NAMES else ""
            yield f"**Only in {letter}:** {', '.join(map(code, names[:NAMES]))}{rest}"
    if shown.notes:
        yield "\n".join(f"- {escape(note)}" for note in shown.notes)
    yield from _close(shown)


def _close(shown: View) -> Iterator[str]:
    figures = []
    if shown.tally:
        figures.append("Parameters: " + ", ".join(f"{count} {verdict}" for verdict, count in shown.tally) + ".")
    if shown.power:
        factors = ", ".join(f"{escape(family)} {value}" for family, value in shown.power)
        figures.append(f"Smallest factor that would be flagged: {factors}.")
    if figures:
        yield " ".join(figures)
    steps = [*shown.next_steps, *([PICTURE] if shown.assay.verdict is Verdict.DIVERGE else [])]
    if steps:
        yield "**Where to look next**\n" + "\n".join(f"- {escape(step)}" for step in steps)


def _laws(findings: Sequence[FindingView]) -> Iterator[str]:
    for finding in findings:
        yield f"- **{code(finding.law.formula)}** {escape(finding.sentence)}"
        for fault in finding.faults:
            yield f"  {_fault(fault)}"


def _fault(fault: KnownFault) -> str:
    title = f": {escape(fault.title)}" if fault.title else ""
    where = f" ({escape(fault.where)})" if fault.where else ""
    return f"- same signature as {code(fault.id)}{title}{where}"


def _families(findings: Sequence[FindingView]) -> str:
    titles = ("family", "parameters", "pattern", "law", "value", "same numbers", "residual", "looks like")
    rows = (
        (
            escape(finding.families),
            finding.count,
            str(finding.law.pattern),
            code(finding.law.formula),
            finding.value,
            ", ".join(map(code, finding.law.ties)) or "—",
            finding.residual,
            ", ".join(code(fault.id) for fault in finding.faults) or "—",
        )
        for finding in findings
    )
    return _table(titles, rows, right=(4, 6))


def _weights(finding: FindingView) -> Iterator[str]:
    for part in finding.grids:
        owner = "" if part.owner is None else f" of what rank {part.owner} owns"
        spread = f" (± {finding.stderr})" if finding.stderr != numbers.ABSENT else ""
        title = f"Weights of {escape(finding.families)}{owner}, healthy = 1{spread}"
        if part.uniform:
            yield f"{title}: **{part.uniform}** for {', '.join((*part.rows, *part.columns))}"
        else:
            yield f"{title}\n\n{_grid(part)}"
    if finding.more_owners:
        yield f"_{finding.more_owners} more ranks are in the JSON report._"
    if finding.segments:
        yield f"Ratio by sixteenth of the tensor: {escape(finding.segments)}"


def _grid(part: Grid) -> str:
    rows = [(row, *texts) for row, texts in zip(part.rows, part.texts, strict=True)]
    table = _table(("", *part.columns), rows[:ROWS], right=range(1, len(part.columns) + 1))
    return table + (f"\n\n_{len(rows) - ROWS} more rows are in the JSON report._" if len(rows) > ROWS else "")


def _parameters(assay: Assay, items: Sequence[ParameterVerdict]) -> Iterator[str]:
    if not items:
        return
    titles = ("parameter", "family", "verdict", "ratio", "residual", "tolerance", "note")
    rows = (
        (
            code(item.name),
            escape(item.family),
            str(item.verdict),
            numbers.factor(item.ratio),
            numbers.error(item.residual),
            numbers.scientific(item.tolerance),
            escape(item.note),
        )
        for item in items[:PARAMETERS]
    )
    summary = f"{len(items)} of {len(assay.parameters)} parameters do not agree"
    if len(items) > PARAMETERS:
        summary += f" (first {PARAMETERS}; the JSON and HTML reports list all)"
    table = _table(titles, rows, right=(3, 4, 5))
    yield f"<details><summary>{summary}</summary>\n\n{table}\n\n</details>"


def _table(titles: Sequence[str], rows: Iterator[Sequence[str]] | Sequence[Sequence[str]], right: Sequence[int]) -> str:
    rule = ["---:" if index in right else "---" for index in range(len(titles))]
    return "\n".join(f"| {' | '.join(row)} |" for row in (titles, rule, *rows))
