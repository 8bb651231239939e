"""The report as JUnit XML: one test case a parameter, so that CI systems show which diverge and under which law."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from xml.etree import ElementTree as Tree

from gradassay.goldens.assay.result import Assay, JointFinding, ParameterVerdict, Verdict
from gradassay.goldens.report import numbers
from gradassay.goldens.report.text import render_text
from gradassay.goldens.report.view import FindingView, View, joint_view, view


def render_junit(assays: Sequence[Assay], joint: Sequence[JointFinding] = ()) -> str:
    """The XML text: a suite an assay, a case named `verdict` in each, then a case for every parameter.

    A parameter that diverges is a failure; one that is missing, or could not be judged, an error. The case `verdict`
    carries what the assay as a whole came to, so that no suite passes whose assay does not agree.
    """
    root = Tree.Element("testsuites", name="gradassay")
    laws = [joint_view(finding).sentence for finding in joint]
    for assay in assays:
        root.append(_suite(view(assay), laws))
    for key in ("tests", "failures", "errors"):
        root.set(key, str(sum(int(suite.get(key, "0")) for suite in root)))
    return document(root)


def document(root: Tree.Element) -> str:
    """The element as the text of a file."""
    Tree.indent(root)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{Tree.tostring(root, encoding="unicode")}\n'


def add_properties(parent: Tree.Element, values: Mapping[str, str]) -> None:
    """Adds `properties` to the element, those that have a value."""
    properties = Tree.SubElement(parent, "properties")
    for name, value in values.items():
        if value:
            Tree.SubElement(properties, "property", name=name, value=value)


def _suite(shown: View, laws: Sequence[str]) -> Tree.Element:
    assay = shown.assay
    title = assay.b.title or assay.b.ref
    suite = Tree.Element("testsuite", name=title)
    properties: dict[str, str] = {
        "verdict": str(assay.verdict),
        "a": assay.a.ref,
        "b": assay.b.ref,
        "layout": str(assay.layout),
        "stage": assay.stage,
        **{f"power.{family}": value for family, value in shown.power},
        **{f"joint.{number}": law for number, law in enumerate(laws, start=1)},
        **{f"note.{number}": note for number, note in enumerate(shown.notes, start=1)},
    }
    add_properties(suite, properties)
    suite.append(_whole(shown, title))
    by_name = {name: finding for finding in shown.findings for name in finding.parameters}
    for parameter in assay.parameters:
        suite.append(_case(parameter, by_name.get(parameter.name), title))
    for side, names in (("A", assay.unmatched_a), ("B", assay.unmatched_b)):
        for name in names:
            case = Tree.SubElement(suite, "testcase", name=name, classname=f"{title}.unmatched")
            Tree.SubElement(case, "error", type=str(Verdict.INCOMPLETE), message=f"only in {side}")
    suite.set("tests", str(len(suite.findall("testcase"))))
    suite.set("failures", str(len(suite.findall("testcase/failure"))))
    suite.set("errors", str(len(suite.findall("testcase/error"))))
    return suite


def _whole(shown: View, title: str) -> Tree.Element:
    case = Tree.Element("testcase", name="verdict", classname=title)
    assay = shown.assay
    if assay.verdict is not Verdict.AGREE:
        kind = "failure" if assay.verdict is Verdict.DIVERGE else "error"
        problem = Tree.SubElement(case, kind, type=str(assay.verdict), message=shown.sentence)
        problem.text = render_text([assay])
    return case


def _case(parameter: ParameterVerdict, finding: FindingView | None, title: str) -> Tree.Element:
    case = Tree.Element("testcase", name=parameter.name, classname=f"{title}.{parameter.family}")
    figures = {
        "family": parameter.family,
        "ratio": numbers.factor(parameter.ratio),
        "residual": numbers.error(parameter.residual),
        "tolerance": numbers.scientific(parameter.tolerance),
        "note": parameter.note,
    }
    if finding is not None:
        figures |= {
            "law": finding.law.formula,
            "pattern": str(finding.law.pattern),
            "known_faults": ", ".join(fault.id for fault in finding.faults),
        }
    add_properties(case, figures)
    if parameter.verdict is Verdict.AGREE:
        return case
    law = f"{finding.law.formula}: {finding.sentence}" if finding else parameter.note or str(parameter.verdict)
    kind = "failure" if parameter.verdict is Verdict.DIVERGE else "error"
    problem = Tree.SubElement(case, kind, type=str(parameter.verdict), message=law)
    problem.text = "\n".join(f"{name}: {value}" for name, value in figures.items() if value)
    return case
