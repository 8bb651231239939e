"""The report for GitHub."""

from __future__ import annotations

from dataclasses import replace

from gradassay.goldens.assay.result import Assay, JointFinding
from gradassay.goldens.report import render, render_joint
from gradassay.goldens.report.markdown import LIMIT


def test_heading_law_and_tables(expert: Assay) -> None:
    text = render(expert, "markdown")

    assert text.startswith("### ❌ 24 of 24 expert parameters diverge")
    assert "- **`w[r,m] = ep`** all 24 expert parameters" in text
    assert "| expert | 24 of 24 | uniform | `w[r,m] = ep` | 2 | `dp/2`, `edp` | 2.1e-7 | `deepspeed-6545` |" in text
    assert "<details><summary>24 of 32 parameters do not agree</summary>" in text


def test_every_row_of_a_table_has_the_same_columns(geometric: Assay, broken: Assay) -> None:
    for assay in (geometric, broken):
        for block in render(assay, "markdown").split("\n\n"):
            rows = [line for line in block.splitlines() if line.startswith("|")]
            assert len({row.replace("\\|", "").count("|") for row in rows}) <= 1


def test_names_cannot_bring_markup(broken: Assay) -> None:
    text = render(broken, "markdown")
    outside = "".join(part for index, part in enumerate(text.split("`")) if index % 2 == 0)

    assert "<script" not in outside
    assert "<img" not in outside
    assert "<i>" not in outside
    assert "\\| pipe" in text


def test_size_is_capped_and_says_so(expert: Assay, joint: tuple[tuple[Assay, ...], tuple[JointFinding, ...]]) -> None:
    many = replace(expert, notes=tuple(f"note {number} {'x' * 90}" for number in range(2000)))
    assert len(render(many, "markdown")) <= LIMIT
    assert "holds the whole report" in render(many, "markdown")
    assert "holds the whole report" not in render_joint(*joint, "markdown")
