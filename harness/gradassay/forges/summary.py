"""A job's result as Markdown that reads like a colleague's remark, for a step summary and for a comment."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from gradassay.forges.capped import Limit, Page
from gradassay.forges.escaping import code, link, prose
from gradassay.forges.outcome import CellLine, CiResult
from gradassay.forges.remarks import Remark, diverging, failures, remarks, unjudged
from gradassay.goldens.errors import Exit

NAMED = 6
"""Cells and parameters that a sentence names; the table has all cells, the assay behind the link all parameters."""
SHORTEST = 8_192
"""Room below which only the headline is written."""
RESERVED = 600
"""Kept for saying what was left out."""
COMMANDS = ("gradassay ", "pip install ")
ICONS: Mapping[int, str] = {Exit.AGREE: "✅", Exit.DIVERGE: "❌"}
HEADLINES: Mapping[int, str] = {
    Exit.INVALID: "The job is set up wrongly",
    Exit.NO_GOLDEN: "There is no golden to compare with",
    Exit.INCOMPLETE: "Ranks or parameters are missing",
    Exit.INCOMPARABLE: "Runs cannot be compared with their golden",
    Exit.INCONCLUSIVE: "Too little was seen to judge",
    Exit.UNAUTHORISED: "The service does not take the token",
    Exit.UNREACHABLE: "The service did not answer; the job can be repeated",
    Exit.SERVICE: "The service failed",
    Exit.BUG: "gradassay failed, which is a bug of gradassay",
}


def summarise(result: CiResult, limit: Limit, *, job_url: str = "") -> str:
    """The Markdown, no longer than the limit; pieces without room are left out whole and counted.

    Empty where not even the headline has room.
    """
    icon = "⏭️" if result.skipped else ICONS.get(result.exit, "⚠️")
    opening = f"### {icon} {headline(result)}\n\n"
    if limit.most < SHORTEST:
        return opening if limit.length(opening) <= limit.most else ""
    closing = _closing(result, job_url)
    page = Page(limit=limit, reserved=RESERVED + limit.length(closing))
    page.add(opening)
    if result.skipped:
        page.add(f"Nothing was run: {prose(result.skipped)}.\n\n")
    page.add_most([_remark(remark) for remark in remarks(result)], _left_out("law"))
    page.add_most(
        [_unjudged(lines) for lines in failures(result)],
        _left_out("failure"),
        opening="**Not judged**\n\n",
        closing="\n",
    )
    page.add_most(
        [_accepted(line) for line in result.lines if line.accepted],
        _left_out("cell"),
        opening="**Accepted**\n\n",
        closing="\n",
    )
    page.add_most(
        [f"- {prose(note)}\n" for note in result.notes], _left_out("note"), opening="**Notes**\n\n", closing="\n"
    )
    rows = [_row(line) for line in result.lines]
    page.add_most(rows, _left_out("row"), opening=_opening(len(rows)), closing="\n</details>\n\n")
    page.add(closing)
    return page.text


def headline(result: CiResult) -> str:
    """The job in one sentence without a full stop, harmless as Markdown."""
    total = len(result.lines)
    cells = f"{total} cell{'' if total == 1 else 's'}"
    if result.skipped:
        return "Gradients were not compared"
    if result.exit == Exit.AGREE:
        accepted = sum(line.accepted for line in result.lines)
        also = f", or diverge as a reviewer has accepted ({accepted})" if accepted else ""
        return f"Gradients agree with their goldens{also}: {cells}"
    if result.exit == Exit.DIVERGE:
        return f"Gradients diverge in {len(diverging(result))} of {cells}"
    said = HEADLINES.get(result.exit, f"The job ended with exit code {result.exit}")
    affected = len(unjudged(result))
    return f"{said}: {affected} of {cells}" if affected else said


def _remark(remark: Remark) -> str:
    sentence = remark.sentence.removesuffix(f": {remark.formula}")
    law = f" ({code(remark.formula)})" if remark.formula else ""
    lines = [f"**{prose(sentence)}**{law}", "", f"- in {_some([_cell(line) for line in remark.cells])}"]
    if remark.parameters:
        lines.append(f"- parameters {_some([code(name) for name in remark.parameters])}")
    if remark.faults:
        first, *others = remark.faults
        also = f"; also like {_some([code(fault.id) for fault in others])}" if others else ""
        title = prose(f"{first.title} ({first.report})")
        lines.append(f"- looks like the public fault {code(first.id)}: {title}{also}")
    return "\n".join(lines) + "\n\n"


def _cell(line: CellLine) -> str:
    return f"{code(line.cell)} ({link('review', line.link)})" if line.link else code(line.cell)


def _some(texts: Sequence[str]) -> str:
    """The first of them, and how many more there are."""
    rest = len(texts) - NAMED
    shown = ", ".join(texts[:NAMED])
    return f"{shown} and {rest} more" if rest > 0 else shown


def _unjudged(lines: Sequence[CellLine]) -> str:
    first = lines[0]
    why = prose(first.error or first.sentence or first.verdict)
    todo = "".join(f"\n  - {_step(step)}" for step in first.hint.splitlines() if step.strip())
    cells = _some([_cell(line) for line in lines])
    return f"- {cells}: {why}{todo}\n"


def _step(text: str) -> str:
    """One line of a hint; a command as it is typed."""
    return code(text) if text.startswith(COMMANDS) else prose(text)


def _accepted(line: CellLine) -> str:
    return f"- {_cell(line)} diverges as a reviewer has accepted: {prose(line.sentence or line.law)}\n"


def _opening(count: int) -> str:
    title = f"All {count} cells" if count > 1 else "The cell"
    head = "| cell | verdict | law | golden | |\n| --- | --- | --- | --- | --- |\n"
    return f"<details><summary>{title}</summary>\n\n{head}"


def _row(line: CellLine) -> str:
    icon = ICONS.get(line.exit, "⚠️")
    verdict = f"{icon} {prose(line.verdict)}{', accepted' if line.accepted else ''}"
    review = link("review", line.link) if line.link else ""
    return f"| {code(line.cell)} | {verdict} | {code(line.law)} | {code(line.golden)} | {review} |\n"


def _left_out(what: str) -> Callable[[int], str]:
    def say(count: int) -> str:
        return f"_{count} more {what}{'' if count == 1 else 's'} had no room here; the report has all._\n\n"

    return say


def _closing(result: CiResult, job_url: str) -> str:
    return f"<sub>{' · '.join(_sources(result, job_url))}</sub>\n"


def _sources(result: CiResult, job_url: str) -> Iterator[str]:
    yield "gradassay"
    if result.matrix:
        yield code(result.matrix)
    if job_url:
        yield link("job", job_url)
