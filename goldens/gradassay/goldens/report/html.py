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
from gradassay.goldens.report.view import View, joint_view, view


def render_html(assays: Sequence[Assay], joint: Sequence[JointFinding] = ()) -> str:
    """The page's text. Its content policy allows its own style and script by digest, and nothing else."""
    style, script = _part("heatmap.css") + _part("report.css"), _part("report.js")
    return _template().render(
        views=[_page(view(assay)) for assay in assays],
        joint=[joint_view(finding) for finding in joint],
        verdict=str(joint_verdict(assays)),
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
def _template() -> Template:
    environment = Environment(
        loader=PackageLoader("gradassay.goldens.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"factor": numbers.factor, "error": numbers.error, "scientific": numbers.scientific}
    return environment.get_template("report.html")


def _part(name: str) -> str:
    return files("gradassay.goldens.report").joinpath("templates", name).read_text(encoding="utf-8")


def _digest(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"
