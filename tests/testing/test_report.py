"""The report of a run: of its own parts alone, readable by a browser, by scripts and by CI systems."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as Tree

import pytest

from builders import Toy
from gradassay.goldens.assay.compare import assay_record
from gradassay.goldens.errors import Exit, NoGolden, StoreError
from gradassay.goldens.golden import Golden
from gradassay.goldens.layout import Layout
from gradassay.goldens.record import Record
from gradassay.goldens.report.json import to_json
from gradassay.testing.parts import Part, Parts, error_of
from gradassay.testing.report import publish
from gradassay.testing.scratch import scratch_of

RUN = "run-1"
HOSTILE = "tests/test_<i>.py::Test::test_x[a::b\x1b[31m\udc80\x00<script>alert(1)</script>\"'&]"
# What Jenkins (junit-10.xsd of its xunit plugin) and GitLab read, and properties of cases, as pytest itself writes them.
ATTRIBUTES = {
    "testsuites": {"name", "time", "tests", "failures", "errors", "skipped"},
    "testsuite": {"name", "time", "tests", "failures", "errors", "skipped", "timestamp"},
    "testcase": {"name", "classname", "time", "file"},
    "failure": {"type", "message"},
    "error": {"type", "message"},
    "skipped": {"type", "message"},
    "properties": set(),
    "property": {"name", "value"},
}
CHILDREN = {
    "testsuites": {"testsuite"},
    "testsuite": {"properties", "testcase"},
    "testcase": {"properties", "failure", "error", "skipped"},
    "properties": {"property"},
}


class Page(HTMLParser):
    """The tags, and the text of the page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.links: dict[str, str] = {}
        self.ids: set[str] = set()
        self.texts: list[str] = []
        self._link = ""
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        found = dict(attributes)
        self.ids.add(found.get("id") or "")
        self._link = (found.get("href") or "") if tag == "a" else ""
        assert not any(name.startswith("on") for name in found)

    def handle_data(self, data: str) -> None:
        self.texts.append(data)
        if self._link:
            self.links[data] = self._link
            self._link = ""


@pytest.fixture
def parts(tmp_path: Path) -> Parts:
    return Parts(tmp_path, run=RUN)


@pytest.fixture
def healthy(
    make_toy: Callable[..., Toy], make_golden: Callable[..., Golden], make_record: Callable[..., Record]
) -> Part:
    """A test that agrees."""
    return _part("tests/test_a.py::test_healthy", make_toy(), make_golden, make_record)


@pytest.fixture
def doubled(
    make_toy: Callable[..., Toy], make_golden: Callable[..., Golden], make_record: Callable[..., Record]
) -> Part:
    """A test whose experts are twice too large."""
    return _part("tests/test_a.py::TestX::test_doubled[dp4]", make_toy(), make_golden, make_record, expert=2.0)


def _part(test: str, toy: Toy, golden: Callable[..., Golden], record: Callable[..., Record], **weights: float) -> Part:
    assay = assay_record(record(toy, layout=Layout(dp=4, ep=2, accum=3), weights=weights), golden(toy))
    return Part(
        test=test,
        verdict=str(assay.verdict),
        exit=int(assay.exit),
        cell="toy ddp dp4.ep2.accum3 float32",
        assay=json.loads(json.dumps(to_json(assay))),
        record="run.safetensors",
        golden="golden:toy.float32@v1",
        reproduce="gradassay record toy && gradassay diff A B",
        seconds=1.5,
    )


def _checked(folder: Path) -> Tree.Element:
    """The JUnit file, once nothing is in it that its readers do not know, and its counts are right."""
    root = Tree.fromstring((folder / "junit.xml").read_bytes())
    for element in root.iter():
        assert set(element.attrib) <= ATTRIBUTES[element.tag], element.tag
        assert {child.tag for child in element} <= CHILDREN.get(element.tag, set())
        if element.tag in ("testsuites", "testsuite"):
            for key, tag in {"failures": "failure", "errors": "error", "skipped": "skipped"}.items():
                assert element.get(key) == str(len(list(element.iter(tag))))
            assert element.get("tests") == str(len(list(element.iter("testcase"))))
            # The pattern that junit-10.xsd gives for a time.
            assert re.fullmatch(r"(([0-9]{0,3},)*[0-9]{3}|[0-9]{0,3})*(\.[0-9]*)?", element.get("time", "0"))
    return root


def _properties(case: Tree.Element) -> dict[str, str]:
    return {item.get("name", ""): item.get("value", "") for item in case.findall("properties/property")}


def _document(folder: Path) -> dict[str, Any]:
    document: dict[str, Any] = json.loads((folder / "report.json").read_text())
    return document


def test_a_run_that_agrees(parts: Parts, healthy: Part, tmp_path: Path):
    parts.write(healthy)
    published = publish(tmp_path, run=RUN)

    assert (published.verdict, published.exit, published.notes) == ("agree", Exit.AGREE, ())
    document = _document(tmp_path)
    assert (document["verdict"], document["exit"], document["counts"]) == ("agree", 0, {"agree": 1})
    assert document["tests"][0]["test"] == healthy.test
    assert document["tests"][0]["assay"] == healthy.assay
    (case,) = _checked(tmp_path).iter("testcase")
    assert [child.tag for child in case] == ["properties"]
    assert _properties(case)["golden"] == "golden:toy.float32@v1"
    assert "1 of 1 tests agree" in Page((tmp_path / "index.html").read_text()).texts


def test_a_divergence_has_law_and_weights_and_the_command(parts: Parts, healthy: Part, doubled: Part, tmp_path: Path):
    parts.write(healthy)
    parts.write(doubled)
    published = publish(tmp_path, run=RUN)

    assert (published.verdict, published.exit) == ("diverge", Exit.DIVERGE)
    assert _document(tmp_path)["counts"] == {"diverge": 1, "agree": 1}
    page = Page((tmp_path / "index.html").read_text())
    assert page.links.keys() == {healthy.test, doubled.test}
    assert {link.removeprefix("#") for link in page.links.values()} <= page.ids
    assert "w[r,m] = ep" in page.texts
    assert doubled.reproduce in page.texts
    assert "svg" in page.tags
    assert page.tags.count("script") == 1
    root = _checked(tmp_path)
    assert [suite.get("name") for suite in root] == ["tests/test_a.py"]
    case = root.find(".//testcase[@name='test_doubled[dp4]']")
    assert case is not None
    assert (case.get("classname"), case.get("file"), case.get("time")) == (
        "tests.test_a.TestX",
        "tests/test_a.py",
        "1.500",
    )
    found = _properties(case)
    assert (found["verdict"], found["law"], found["reproduce"]) == ("diverge", "w[r,m] = ep", doubled.reproduce)
    assert float(found["power.expert"]) > 1
    failure = case.find("failure")
    assert failure is not None
    assert (failure.get("message") or "").startswith("diverge: ")
    assert "weights by data-parallel rank" in (failure.text or "")
    assert f"outside pytest: {doubled.reproduce}" in (failure.text or "")


def test_what_came_to_no_verdict_is_an_error_and_what_was_skipped_is_skipped(
    parts: Parts, healthy: Part, tmp_path: Path
):
    error = error_of(NoGolden("golden toy: no version is approved", hint="build it"))
    parts.write(healthy)
    parts.write(Part(test="t.py::missing", verdict="no-golden", exit=3, error=error))
    parts.write(Part(test="t.py::left_out", verdict="skipped", exit=3, error=error))
    published = publish(tmp_path, run=RUN)

    assert (published.verdict, published.exit) == ("no-golden", Exit.NO_GOLDEN)
    assert _document(tmp_path)["results"] == {"passed": 1, "failed": 0, "errored": 1, "skipped": 1}
    root = _checked(tmp_path)
    missing, left_out = (root.find(f".//testcase[@name='{name}']") for name in ("missing", "left_out"))
    assert missing is not None
    assert left_out is not None
    assert [child.tag for child in missing] == ["properties", "error"]
    assert missing[1].get("message") == "golden toy: no version is approved"
    assert "build it" in (missing[1].text or "")
    assert [child.tag for child in left_out] == ["properties", "skipped"]
    page = (tmp_path / "index.html").read_text()
    assert "golden toy: no version is approved\nbuild it" in page


def test_only_skipped_tests_are_no_pass(parts: Parts, tmp_path: Path):
    parts.write(Part(test="t.py::left_out", verdict="skipped", exit=3))
    assert publish(tmp_path, run=RUN).exit is Exit.NO_GOLDEN


def test_no_test_at_all_is_no_pass(tmp_path: Path):
    published = publish(tmp_path, run=RUN)
    assert (published.verdict, published.exit) == ("error", Exit.INCOMPLETE)
    assert _checked(tmp_path).get("errors") == "1"
    assert _document(tmp_path)["tests"] == []
    assert "0 of 0 tests agree" in (tmp_path / "index.html").read_text()


@pytest.mark.parametrize("broken", [None, {"format": 9}, {"format": 1, "verdict": "agree"}])
def test_agreement_without_an_assay_that_agrees_is_no_pass(
    parts: Parts, healthy: Part, tmp_path: Path, broken: dict[str, Any] | None
):
    parts.write(Part(test=healthy.test, verdict="agree", exit=0, assay=broken))
    published = publish(tmp_path, run=RUN)
    assert (published.verdict, published.exit) == ("error", Exit.INCOMPLETE)
    assert _checked(tmp_path).get("errors") == "1"


def test_agreement_is_not_what_a_divergent_assay_says(parts: Parts, doubled: Part, tmp_path: Path):
    parts.write(Part(test=doubled.test, verdict="agree", exit=0, assay=doubled.assay))
    assert publish(tmp_path, run=RUN).exit is Exit.INCOMPLETE


def test_a_test_whose_worker_died_after_it_agreed_is_an_error(parts: Parts, healthy: Part, tmp_path: Path):
    parts.write(healthy)
    parts.lost(healthy.test, "worker gw0 crashed")
    published = publish(tmp_path, run=RUN)
    assert (published.verdict, published.exit) == ("error", Exit.INCOMPLETE)
    (case,) = _checked(tmp_path).iter("testcase")
    error = case.find("error")
    assert error is not None
    assert error.get("message") == "worker gw0 crashed"


def test_a_part_that_cannot_be_read_is_named_and_no_pass(parts: Parts, healthy: Part, tmp_path: Path):
    parts.write(healthy)
    (scratch_of(tmp_path, RUN) / "half.json").write_bytes(b'{"format": 1, "kind"')
    published = publish(tmp_path, run=RUN)

    assert (published.verdict, published.exit) == ("error", Exit.INCOMPLETE)
    assert published.notes[0].startswith("half.json is left out: it is no JSON")
    assert _checked(tmp_path).get("errors") == "1"
    assert "half.json is left out" in (tmp_path / "index.html").read_text()


def test_names_cannot_bring_markup_or_control_characters(parts: Parts, doubled: Part, tmp_path: Path):
    error = {"code": "x", "message": "<img src=x>\x1b[2J", "hint": "]]>\u202e"}
    parts.write(
        Part(
            test=HOSTILE,
            verdict="<b>\x07",
            exit=99,
            cell=HOSTILE,
            error=error,
            assay=doubled.assay,
            golden='"><svg onload=alert(1)>',
            reproduce="; rm -rf <x>",
        )
    )
    published = publish(tmp_path, run=RUN)

    assert published.exit is Exit.INCOMPLETE
    text = (tmp_path / "index.html").read_text()
    page = Page(text)
    assert page.tags.count("script") == 1
    assert not {"i", "img", "b", "x"} & set(page.tags)
    assert not re.search("[\x00-\x08\x0b-\x1f\u202e]", text)
    assert not re.findall(r"""href=(?!"#test-\d+")|src=["']|url\(|@import""", text.replace("&lt;img src=x&gt;", ""))
    (case,) = _checked(tmp_path).iter("testcase")
    assert case.get("name") == "test_x[a::b\\x1b[31m\\udc80\\x00<script>alert(1)</script>\"'&]"
    assert case.get("classname") == "tests.test_<i>.Test"
    assert _document(tmp_path)["tests"][0]["test"] == HOSTILE


def test_a_second_run_into_the_folder_reports_itself_and_keeps_the_records_before_it(
    parts: Parts, healthy: Part, doubled: Part, tmp_path: Path
):
    records = tmp_path / "records"
    records.mkdir()
    (records / "before.safetensors").write_bytes(b"before")
    (records / "run.safetensors").write_bytes(b"run")
    parts.write(doubled)
    publish(tmp_path, run=RUN)

    second = Parts(tmp_path, run="run-2")
    second.write(healthy)
    published = publish(tmp_path, run="run-2")

    assert published.exit is Exit.AGREE
    document = _document(tmp_path)
    assert (document["run"], [test["test"] for test in document["tests"]]) == ("run-2", [healthy.test])
    assert document["notes"] == [
        "records of runs before this one, which no test of this report made: 1 file in records"
    ]
    assert _checked(tmp_path).get("tests") == "1"
    assert doubled.test not in (tmp_path / "index.html").read_text()
    assert {path.name: path.read_bytes() for path in records.iterdir()} == {
        "before.safetensors": b"before",
        "run.safetensors": b"run",
    }


def test_several_comparisons_of_one_test_are_told_apart(parts: Parts, healthy: Part, tmp_path: Path):
    parts.write(healthy)
    parts.write(Part(test=healthy.test, verdict="error", exit=4, number=2))
    publish(tmp_path, run=RUN)
    assert [case.get("name") for case in _checked(tmp_path).iter("testcase")] == ["test_healthy", "test_healthy (2)"]


def test_a_folder_that_cannot_be_written_is_said(tmp_path: Path):
    folder = tmp_path / "file"
    folder.write_bytes(b"")
    with pytest.raises(StoreError, match="file"):
        publish(folder, run=RUN)
