"""One assay, rendered for a terminal, a machine, GitHub, a CI system or a browser."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gradassay.goldens.assay.result import Assay, JointFinding


class Format(StrEnum):
    """What `gradassay diff --format` understands."""

    TEXT = "text"
    JSON = "json"
    MARKDOWN = "markdown"
    JUNIT = "junit"
    HTML = "html"


def render(assay: Assay, format: Format | str) -> str:
    """The assay as text in the given format; raises ValueError for another one."""
    return _render([assay], (), Format(format))


def render_joint(assays: Sequence[Assay], findings: Sequence[JointFinding], format: Format | str) -> str:
    """Several assays (at least one) and the laws that hold in all of them; one alone is rendered as by `render`."""
    return _render(assays, findings, Format(format))


def _render(assays: Sequence[Assay], findings: Sequence[JointFinding], format: Format) -> str:
    if format is Format.JSON:
        from gradassay.goldens.report.json import dumps, joint_to_json, to_json

        single = len(assays) == 1 and not findings
        return dumps(to_json(assays[0]) if single else joint_to_json(assays, findings))
    if format is Format.MARKDOWN:
        from gradassay.goldens.report.markdown import render_markdown

        return render_markdown(assays, findings)
    if format is Format.JUNIT:
        from gradassay.goldens.report.junit import render_junit

        return render_junit(assays, findings)
    if format is Format.HTML:
        from gradassay.goldens.report.html import render_html

        return render_html(assays, findings)
    from gradassay.goldens.report.text import render_text

    return render_text(assays, findings)
