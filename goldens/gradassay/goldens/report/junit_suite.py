"""Tests of a suite as JUnit XML: one case a test, so that CI systems list them beside all others."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import groupby
from xml.etree import ElementTree as Tree

from gradassay.goldens.report.junit import add_properties, document
from gradassay.goldens.report.printable import printable_parts
from gradassay.goldens.report.suite import Entry, Result, Suite
from gradassay.goldens.report.text import render_text
from gradassay.goldens.report.view import view

_CHILDREN: Mapping[Result, str] = {Result.FAILED: "failure", Result.ERRORED: "error", Result.SKIPPED: "skipped"}
_COUNTS: Mapping[str, Result] = {"failures": Result.FAILED, "errors": Result.ERRORED, "skipped": Result.SKIPPED}


def render_junit_suite(suite: Suite) -> str:
    """The XML text: a suite a test file, a case a test, with what is known of it as properties.

    They stand in the case, as those of pytest's own record_property do: Jenkins and GitLab read them there. A test that
    diverges is a failure; one that came to no agreement for another reason an error. A note of the suite is a property of
    each of its suites, and where there is no test at all, a case `gradassay` is an error.
    """
    suite = printable_parts(suite)
    root = Tree.Element("testsuites", name="gradassay")
    common = {"run": suite.run, **{f"note.{number}": note for number, note in enumerate(suite.notes, start=1)}}
    entries = sorted(suite.entries, key=lambda entry: entry.file)
    for file, members in groupby(entries, key=lambda entry: entry.file):
        root.append(_suite(file, tuple(members), suite.created, common))
    if not suite.entries:
        root.append(_nothing(suite, common))
    for key in ("tests", "failures", "errors", "skipped"):
        root.set(key, str(sum(int(element.get(key, "0")) for element in root)))
    root.set("time", f"{sum(entry.seconds for entry in suite.entries):.3f}")
    return document(root)


def _suite(file: str, entries: tuple[Entry, ...], created: str, common: Mapping[str, str]) -> Tree.Element:
    element = Tree.Element("testsuite", name=file, tests=str(len(entries)), timestamp=created.removesuffix("Z"))
    for key, result in _COUNTS.items():
        element.set(key, str(sum(entry.result is result for entry in entries)))
    element.set("time", f"{sum(entry.seconds for entry in entries):.3f}")
    add_properties(element, common)
    element.extend([_case(entry) for entry in entries])
    return element


def _case(entry: Entry) -> Tree.Element:
    # Between the brackets stand parameters, whatever they hold.
    path, bracket, parameters = entry.name.partition("[")
    file, *names = path.split("::")
    *classes, name = names or [path]
    classname = ".".join([file.removesuffix(".py").replace("/", "."), *classes])
    case = Tree.Element("testcase", name=f"{name}{bracket}{parameters}", classname=classname, file=file)
    case.set("time", f"{entry.seconds:.3f}")
    shown = view(entry.assay) if entry.assay else None
    properties = {"verdict": entry.verdict, **entry.facts, "reproduce": entry.reproduce}
    if shown is not None:
        findings = shown.findings
        properties |= {
            "law": "; ".join(dict.fromkeys(finding.law.formula for finding in findings)),
            "known_faults": ", ".join(dict.fromkeys(fault.id for finding in findings for fault in finding.faults)),
            **{f"power.{family}": value for family, value in shown.power},
        }
    add_properties(case, properties)
    if entry.result in _CHILDREN:
        first = entry.message[0] if entry.message else shown.sentence if shown else entry.verdict
        child = Tree.SubElement(case, _CHILDREN[entry.result], type=entry.verdict, message=first)
        report = render_text([entry.assay]) if entry.assay else ""
        again = f"outside pytest: {entry.reproduce}" if entry.reproduce else ""
        child.text = "\n".join(filter(None, [*entry.message, report, again]))
    return case


def _nothing(suite: Suite, common: Mapping[str, str]) -> Tree.Element:
    element = Tree.Element("testsuite", name="gradassay", tests="1", failures="0", errors="1", skipped="0")
    element.set("timestamp", suite.created.removesuffix("Z"))
    add_properties(element, common)
    case = Tree.SubElement(element, "testcase", name="gradassay", classname="gradassay")
    Tree.SubElement(case, "error", type="error", message="no test of this run compared anything")
    return element
