"""A job as JUnit XML: one test case a cell."""

from __future__ import annotations

from xml.etree import ElementTree as Tree

from gradassay.forges.annotations import remark_of
from gradassay.forges.outcome import CellLine, CiResult
from gradassay.goldens.errors import Exit
from gradassay.goldens.report.printable import printable


def junit(result: CiResult) -> str:
    """The XML text. A cell that diverges is a failure, one that was not judged an error, an accepted divergence passes.

    A job that was skipped has a skipped case, one that fails although no cell does an error.
    """
    suite = Tree.Element("testsuite", name=printable(result.matrix or "gradassay"))
    for line in result.lines:
        suite.append(_case(line, result.matrix))
    if result.skipped:
        Tree.SubElement(_whole(suite), "skipped", message=printable(result.skipped))
    elif result.exit != Exit.AGREE and all(line.exit == Exit.AGREE for line in result.lines):
        case = _whole(suite)
        message = printable("; ".join(result.notes) or result.verdict)
        Tree.SubElement(case, "error", type=printable(result.verdict), message=message)
    counts = {
        "tests": len(suite),
        "failures": len(suite.findall("testcase/failure")),
        "errors": len(suite.findall("testcase/error")),
        "skipped": len(suite.findall("testcase/skipped")),
    }
    root = Tree.Element("testsuites", name="gradassay")
    for key, count in counts.items():
        suite.set(key, str(count))
        root.set(key, str(count))
    root.append(suite)
    Tree.indent(root)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{Tree.tostring(root, encoding="unicode")}\n'


def _whole(suite: Tree.Element) -> Tree.Element:
    return Tree.SubElement(suite, "testcase", classname="gradassay", name="job")


def _case(line: CellLine, matrix: str | None) -> Tree.Element:
    case = Tree.Element("testcase", classname=printable(matrix or "gradassay"), name=printable(line.cell))
    if matrix:
        case.set("file", printable(matrix))
    properties = Tree.SubElement(case, "properties")
    for name, value in (("verdict", line.verdict), ("law", line.law), ("golden", line.golden), ("review", line.link)):
        if value:
            Tree.SubElement(properties, "property", name=name, value=printable(value))
    if line.exit == Exit.AGREE:
        return case
    kind = "failure" if line.exit == Exit.DIVERGE else "error"
    first, *_ = remark_of(line).splitlines()
    problem = Tree.SubElement(case, kind, type=printable(line.verdict), message=printable(first))
    problem.text = "\n".join(map(printable, remark_of(line).splitlines()))
    return case
