"""The report for a terminal: the verdict in one sentence, the laws, then the figures behind them."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence

from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from gradassay.goldens.assay.result import Assay, JointFinding, ParameterVerdict, Verdict
from gradassay.goldens.report import numbers
from gradassay.goldens.report.grid import Grid
from gradassay.goldens.report.view import (
    PICTURE,
    FindingView,
    JointView,
    KnownFault,
    View,
    joint_view,
    next_steps,
    view,
)

PARAMETERS = 8
ROWS = 32
PLAIN_WIDTH = 110
STYLES = {
    Verdict.AGREE: "bold green",
    Verdict.DIVERGE: "bold red",
    Verdict.INCONCLUSIVE: "bold yellow",
    Verdict.INCOMPLETE: "bold yellow",
    Verdict.INCOMPARABLE: "bold yellow",
}


def render_text(assays: Sequence[Assay], joint: Sequence[JointFinding] = (), *, width: int = PLAIN_WIDTH) -> str:
    """The report without colours, lines at most `width` wide."""
    console = Console(file=io.StringIO(), width=width, color_system=None, legacy_windows=False)
    with console.capture() as captured:
        console.print(terminal(assays, joint))
    return "".join(f"{line.rstrip()}\n" for line in captured.get().splitlines())


def terminal(assays: Sequence[Assay], joint: Sequence[JointFinding] = ()) -> RenderableType:
    """The report as one renderable for a rich console: joint laws first, then each assay."""
    parts: list[RenderableType] = []
    for finding in joint:
        parts.extend(_joint(joint_view(finding)))
    views = [view(assay) for assay in assays]
    for shown in views:
        if parts:
            parts.append(Text())
        parts.extend(_assay(shown) if len(views) == 1 else _one_of_several(shown))
    steps = next_steps(assays, [finding for shown in views for finding in shown.findings])
    drawn = any(assay.verdict is Verdict.DIVERGE for assay in assays)
    for step in (*steps, *([PICTURE] if drawn else [])):
        parts.append(_indent(Text.assemble(("→ ", "cyan"), step)))
    return Group(*parts)


def _joint(joint: JointView) -> Iterator[RenderableType]:
    yield Text.assemble(("= ", "bold magenta"), (joint.sentence, "bold"))
    for fault in joint.faults:
        yield _indent(_fault(fault))
    for cell in joint.cells:
        yield _indent(Text(cell, style="dim"))


def _assay(shown: View) -> Iterator[RenderableType]:
    """One assay alone: everything that there is to say."""
    assay = shown.assay
    yield _verdict(shown)
    for letter, side in (("A", assay.a), ("B", assay.b)):
        yield _indent(Text(f"{letter}  {side.kind} {side.title or side.ref}", style="dim"))
    yield _indent(Text(f"   layout {assay.layout}, stage {assay.stage}", style="dim"))
    for finding in shown.findings:
        yield Text()
        yield _indent(_law(finding))
    yield from _figures(shown)
    yield from _parameters([item for item in assay.parameters if item.verdict is not Verdict.AGREE])
    yield from _remarks(shown)


def _one_of_several(shown: View) -> Iterator[RenderableType]:
    """One assay among others, whose laws and look-alikes stand above as joint laws."""
    assay = shown.assay
    yield _verdict(shown)
    yield _indent(Text(f"{assay.b.title or assay.b.ref}, layout {assay.layout}, stage {assay.stage}", style="dim"))
    yield from _figures(shown)
    yield from _remarks(shown)


def _verdict(shown: View) -> Text:
    style = STYLES[shown.assay.verdict]
    return Text.assemble((f"{shown.mark} ", style), (shown.sentence, style))


def _figures(shown: View) -> Iterator[RenderableType]:
    if shown.findings:
        yield Text()
        yield _indent(_families(shown.findings))
    for finding in shown.findings:
        yield from _weights(finding, f" of {finding.families}" if len(shown.findings) > 1 else "")


def _remarks(shown: View) -> Iterator[RenderableType]:
    yield Text()
    for letter, names in (("A", shown.assay.unmatched_a), ("B", shown.assay.unmatched_b)):
        if names:
            yield _indent(Text(f"only in {letter}: {_some(names)}", style="yellow"))
    for note in shown.notes:
        yield _indent(Text(f"note: {note}"))
    if shown.tally:
        yield _indent(Text("parameters  " + " · ".join(f"{count} {verdict}" for verdict, count in shown.tally)))
    if shown.power:
        factors = " · ".join(f"{family} {value}" for family, value in shown.power)
        yield _indent(Text.assemble(f"power       {factors}", ("  (smallest factor flagged)", "dim")))


def _law(finding: FindingView) -> RenderableType:
    lines = [Text.assemble((finding.law.formula, "bold cyan"), f" · {finding.sentence}")]
    lines.extend(_fault(fault) for fault in finding.faults)
    return Group(*lines)


def _fault(fault: KnownFault) -> Text:
    title = f": {fault.title}" if fault.title else ""
    where = f" ({fault.where})" if fault.where else ""
    return Text.assemble(("same signature as ", "dim"), (fault.id, "yellow"), title, (where, "dim"))


def _families(findings: Sequence[FindingView]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim", padding=(0, 3, 0, 0))
    for title in ("family", "parameters", "pattern", "law", "value", "same numbers", "residual"):
        table.add_column(title, overflow="fold", justify="right" if title in ("value", "residual") else "left")
    for item in findings:
        law = Text(item.law.formula, style="cyan")
        row = (item.families, item.count, str(item.law.pattern), law, item.value, item.ties or "—", item.residual)
        table.add_row(*(Text(cell) if isinstance(cell, str) else cell for cell in row))
    return table


def _weights(finding: FindingView, whose: str) -> Iterator[RenderableType]:
    if not finding.grids and not finding.segments:
        return
    yield Text()
    title = f"weights{whose} by data-parallel rank r and micro step m, healthy = 1"
    spread = f"  (± {finding.stderr})" if finding.stderr != numbers.ABSENT else ""
    if finding.grids:
        yield _indent(Text.assemble(title, (spread, "dim")))
    for part in finding.grids:
        yield _indent(_grid(part), 4)
    if finding.more_owners:
        yield _indent(Text(f"… and {finding.more_owners} more ranks; --format json lists them", style="dim"), 4)
    if finding.segments:
        yield _indent(Text(f"ratio by sixteenth of the tensor: {finding.segments}"))


def _grid(part: Grid) -> RenderableType:
    owner = "" if part.owner is None else f"what rank {part.owner} owns"
    if part.uniform:
        everywhere = ", ".join((*part.rows, *part.columns))
        return Text.assemble(f"{owner}: " if owner else "", (part.uniform, "bold"), f"  for {everywhere}")
    table = Table(box=None, pad_edge=False, header_style="dim", padding=(0, 2, 0, 0))
    table.add_column(owner, style="dim")
    for column in part.columns:
        table.add_column(column, justify="right")
    for row, texts in list(zip(part.rows, part.texts, strict=True))[:ROWS]:
        table.add_row(row, *texts)
    left = len(part.rows) - ROWS
    return Group(table, Text(f"… and {left} more rows; --format json lists them", style="dim")) if left > 0 else table


def _parameters(items: Sequence[ParameterVerdict]) -> Iterator[RenderableType]:
    if not items:
        return
    table = Table(box=None, pad_edge=False, header_style="dim", padding=(0, 3, 0, 0))
    table.add_column("parameter", overflow="fold", ratio=1)
    noted = any(item.note for item in items[:PARAMETERS])
    mixed = len({item.verdict for item in items}) > 1
    for title in ("ratio", "residual", "tolerance"):
        table.add_column(title, justify="right", no_wrap=True)
    if mixed:
        table.add_column("verdict", no_wrap=True)
    if noted:
        table.add_column("note", overflow="fold")
    for item in items[:PARAMETERS]:
        figures = [numbers.factor(item.ratio), numbers.error(item.residual), numbers.scientific(item.tolerance)]
        row = [item.name, *figures, *([str(item.verdict)] if mixed else []), *([item.note] if noted else [])]
        table.add_row(*map(Text, row))
    yield Text()
    yield _indent(table)
    if len(items) > PARAMETERS:
        rest = f"… and {len(items) - PARAMETERS} more; --format json or html lists every parameter"
        yield _indent(Text(rest, style="dim"))


def _some(names: Sequence[str]) -> str:
    rest = f" … and {len(names) - PARAMETERS} more" if len(names) > PARAMETERS else ""
    return ", ".join(names[:PARAMETERS]) + rest


def _indent(renderable: RenderableType, columns: int = 2) -> Padding:
    return Padding(renderable, (0, 0, 0, columns))
