"""The files for GitLab: code quality and JUnit."""

from __future__ import annotations

import json
from xml.etree import ElementTree as Tree

import pytest

from forges.results import HOSTILE, agrees, diverges, failed, result
from gradassay.forges.junit import junit
from gradassay.forges.outcome import CiResult
from gradassay.forges.quality import code_quality
from gradassay.goldens.report.printable import printable

SEVERITIES = {"info", "minor", "major", "critical", "blocker"}


def issues(job: CiResult, name: str = "gradients") -> list[dict[str, object]]:
    found: list[dict[str, object]] = json.loads(code_quality(job, job=name))
    return found


def test_an_issue_has_what_gitlab_asks_for() -> None:
    diverging, missing, accepted = issues(
        result(agrees(), diverges(), failed(), diverges("c", exit=0, accepted=True), matrix="./ci/matrix.toml")
    )

    assert diverging["location"] == {"path": "ci/matrix.toml", "lines": {"begin": 7}}
    assert str(diverging["check_name"]) == "gradassay-diverge"
    assert "too large by a factor" in str(diverging["description"])
    assert [each["severity"] for each in (diverging, missing, accepted)] == ["critical", "major", "info"]
    assert {str(each["severity"]) for each in (diverging, missing, accepted)} <= SEVERITIES


def test_a_fingerprint_stays_while_cell_and_law_do() -> None:
    (before,) = issues(result(diverges(link="http://h/runs/1")))
    (after,) = issues(result(agrees(), diverges(link="http://h/runs/2", line=99)))
    (other_law,) = issues(result(diverges(law="w[r,m] = dp")))
    (other_job,) = issues(result(diverges()), "other")

    assert before["fingerprint"] == after["fingerprint"]
    assert len({str(each["fingerprint"]) for each in (before, other_law, other_job)}) == 3


def test_the_same_cell_twice_is_two_issues() -> None:
    assert len({str(each["fingerprint"]) for each in issues(result(diverges(), diverges()))}) == 2


def test_where_all_agree_there_is_no_issue() -> None:
    assert issues(result(agrees())) == []


def test_junit_has_a_case_a_cell() -> None:
    suites = Tree.fromstring(junit(result(agrees(), diverges(), failed(), diverges("c", exit=0, accepted=True))))
    suite = suites[0]
    cases = {case.get("name"): case for case in suite}

    assert [suites.get(key) for key in ("tests", "failures", "errors", "skipped")] == ["4", "1", "1", "0"]
    failure = cases["toy/zero1/dp4.ep2.accum3"].find("failure")
    assert failure is not None
    assert "too large" in str(failure.get("message"))
    assert "http://127.0.0.1:1/runs/r1" in str(failure.text)
    assert cases["toy/hsdp/dp4"].find("error") is not None
    assert cases["c"].find("failure") is None
    assert cases["c"].get("file") == "matrix.toml"


def test_junit_of_a_skipped_job_is_skipped() -> None:
    suites = Tree.fromstring(junit(result(skipped="nothing relevant changed")))
    assert suites.get("skipped") == "1"


@pytest.mark.parametrize("lines", [(), (agrees(),)])
def test_junit_of_a_job_that_failed_beside_its_cells_has_an_error(lines: tuple[()]) -> None:
    suites = Tree.fromstring(junit(result(*lines, exit=11, notes=("no answer",))))
    error = suites.find("testsuite/testcase/error")
    assert error is not None
    assert error.get("message") == "no answer"


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_texts_are_valid_xml_and_json(text: str) -> None:
    job = result(failed(text, error=text, hint=text), diverges(text, golden=text), matrix=text)
    case = Tree.fromstring(junit(job)).find("testsuite/testcase")
    assert case is not None
    assert case.get("name") == printable(text)
    assert len(issues(job)) == 2
