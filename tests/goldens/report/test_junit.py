"""The report for CI systems."""

from __future__ import annotations

from xml.etree import ElementTree as Tree

from gradassay.goldens.assay.result import Assay, JointFinding
from gradassay.goldens.report import render, render_joint


def test_a_case_a_parameter_and_failures_carry_the_law(expert: Assay) -> None:
    root = Tree.fromstring(render(expert, "junit").encode())

    assert (root.get("tests"), root.get("failures"), root.get("errors")) == ("33", "25", "0")
    failure = root.find(".//testcase[@name='layers.0.experts.3.up.weight']/failure")
    assert failure is not None
    assert (failure.get("message") or "").startswith("w[r,m] = ep: all 24 expert parameters")
    properties = {item.get("name"): item.get("value") for item in root.iter("property")}
    assert properties["known_faults"] == "deepspeed-6545"
    assert properties["power.expert"] == "1.0000052"
    assert root.find(".//testcase[@name='layers.0.attention.q.weight']/failure") is None


def test_agreement_has_no_failure(agreeing: Assay) -> None:
    root = Tree.fromstring(render(agreeing, "junit").encode())

    assert (root.get("tests"), root.get("failures"), root.get("errors")) == ("33", "0", "0")


def test_what_could_not_be_judged_is_an_error(incomparable: Assay, broken: Assay) -> None:
    root = Tree.fromstring(render(incomparable, "junit").encode())
    assert (root.get("tests"), root.get("errors")) == ("1", "1")

    root = Tree.fromstring(render(broken, "junit").encode())
    assert (root.get("tests"), root.get("errors")) == ("6", "6")
    names = [case.get("name") or "" for case in root.iter("testcase")]
    assert "a|b`c`\\x1b[31m\\x00\\ufffe.weight" in names
    assert "lost.weight" in names


def test_several_assays_are_several_suites(joint: tuple[tuple[Assay, ...], tuple[JointFinding, ...]]) -> None:
    root = Tree.fromstring(render_joint(*joint, "junit").encode())

    assert len(root.findall("testsuite")) == 2
    assert root.get("tests") == "66"
