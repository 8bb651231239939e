"""The report for a terminal."""

from __future__ import annotations

from gradassay.goldens.assay.result import Assay, JointFinding
from gradassay.goldens.report import render, render_joint
from gradassay.goldens.report.text import PARAMETERS, render_text


def test_the_verdict_comes_first_then_the_law(expert: Assay) -> None:
    lines = render(expert, "text").splitlines()

    assert lines[0].startswith("✗ 24 of 24 expert parameters diverge")
    laws = [line.strip() for line in lines if line.strip().startswith("w[r,m] = ep ·")]
    assert laws[0].endswith("in every micro-batch alike")
    assert any("same signature as deepspeed-6545: ZeRO averages expert" in line for line in lines)


def test_weights_that_are_all_alike_are_one_number(expert: Assay, geometric: Assay) -> None:
    assert "    2  for r = 0–3, m = 0–2\n" in render(expert, "text")
    text = render(geometric, "text")
    assert "r = 0–1   0.25      1      4" in text
    assert "r = 2     0.25      —      4" in text
    assert "what rank 1 owns" in text
    assert "1–4: 1, 5–15: 2, 16: 0.5" in text


def test_long_lists_are_cut_and_say_so(expert: Assay) -> None:
    text = render(expert, "text")

    assert text.count(".up.weight") == PARAMETERS
    assert f"… and {24 - PARAMETERS} more; --format json or html lists every parameter" in text


def test_power_is_printed_on_every_verdict(expert: Assay, agreeing: Assay) -> None:
    for assay in (expert, agreeing):
        assert "dense 1.0000047 · expert 1.0000052  (smallest factor flagged)" in render(assay, "text")


def test_ties_name_the_layout_that_separates_them(expert: Assay) -> None:
    assert "→ a run in layout dp8.ep2.accum3 tells ep from dp/2, edp\n" in render(expert, "text")


def test_a_joint_law_stands_above_its_assays(joint: tuple[tuple[Assay, ...], tuple[JointFinding, ...]]) -> None:
    lines = render_joint(*joint, "text").splitlines()

    assert lines[0] == "= w[r,m] = ep explains the expert parameters of both runs"
    assert sum(line.startswith("✗") for line in lines) == 2


def test_lines_fit_the_width_and_names_cannot_steer_the_terminal(broken: Assay) -> None:
    text = render_text([broken], width=60)

    assert max(map(len, text.splitlines())) <= 60
    assert not set(text) & {"\x1b", "\x00", "\ufffe"}
    assert "\\x1b" in text.replace("\n", "")
    assert "only in A: lost.weight" in text
