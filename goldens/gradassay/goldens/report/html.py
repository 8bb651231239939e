"""The report as one HTML page that needs nothing but itself: no network, no files beside it."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from functools import lru_cache
from importlib.resources import files
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined, Template
from markupsafe import Markup

from gradassay.goldens.assay.result import Assay, JointFinding, Verdict, joint_verdict
from gradassay.goldens.report import numbers
from gradassay.goldens.report.heatmap import heatmap
from gradassay.goldens.report.printable import printable_parts
from gradassay.goldens.report.suite import Result, Suite
from gradassay.goldens.report.view import View, joint_view, view


def render_html(assays: Sequence[Assay], joint: Sequence[JointFinding] = ()) -> str:
    """The page's text. Its content policy allows its own style and script by digest, and nothing else."""
    return _render(
        "report.html",
        views=[_page(view(assay)) for assay in assays],
        joint=[joint_view(finding) for finding in joint],
        verdict=str(joint_verdict(assays)),
    )


def render_suite(suite: Suite) -> str:
    """The page's text for many tests: a table of them all, then each with its assay, open where it did not pass."""
    suite = printable_parts(suite)
    shown = [(entry, view(entry.assay) if entry.assay else None) for entry in suite.entries]
    passed, skipped = suite.count(Result.PASSED), suite.count(Result.SKIPPED)
    return _render(
        "suite.html",
        suite=suite,
        verdict=suite.verdict,
        sentence=f"{passed} of {len(suite.entries)} tests agree" + (f", {skipped} skipped" if skipped else ""),
        items=[
            {
                "entry": entry,
                "laws": list(dict.fromkeys(finding.law.formula for finding in words.findings)) if words else [],
                "page": _page(words) if words else None,
            }
            for entry, words in shown
        ],
    )


def _render(template: str, **content: object) -> str:
    style, script = _part("heatmap.css") + _part("report.css"), _part("report.js")
    return _template(template).render(
        **content,
        style=Markup(style),
        script=Markup(script),
        policy=f"default-src 'none'; style-src '{_digest(style)}'; script-src '{_digest(script)}'",
    )


def _page(shown: View) -> dict[str, Any]:
    assay = shown.assay
    laws = {name: finding.law.formula for finding in shown.findings for name in finding.parameters}
    others = [item for item in assay.parameters if item.verdict is not Verdict.AGREE]
    agreeing = [item for item in assay.parameters if item.verdict is Verdict.AGREE]
    return {
        "shown": shown,
        "sentence": shown.sentence.removeprefix(f"{assay.verdict}: "),
        "findings": [
            {
                "words": finding,
                "maps": [heatmap(picture) for picture in finding.pictures],
                "sixteenths": heatmap(finding.sixteenths) if finding.sixteenths else None,
            }
            for finding in shown.findings
        ],
        "parameters": [(item, laws.get(item.name, "")) for item in (*others, *agreeing)],
    }


@lru_cache
def _template(name: str) -> Template:
    environment = Environment(
        loader=PackageLoader("gradassay.goldens.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"factor": numbers.factor, "error": numbers.error, "scientific": numbers.scientific}
    return environment.get_template(name)


def _part(name: str) -> str:
    return files("gradassay.goldens.report").joinpath("templates", name).read_text(encoding="utf-8")


def _digest(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"
