"""The page for a browser."""

from __future__ import annotations

import base64
import hashlib
import re
from html.parser import HTMLParser

import pytest

from gradassay.goldens.assay.result import Assay, JointFinding
from gradassay.goldens.report import render, render_joint

VOID = {"meta", "br", "img", "input", "link", "hr"}


class Page(HTMLParser):
    """Tags with attributes in order, text by innermost tag, and a check that every tag is closed."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[tuple[str, str]] = []
        self.open: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attributes)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attributes)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if data.strip():
            self.texts.append((self.open[-1], data.strip()))


def test_weights_are_drawn_and_every_drawing_has_its_table(geometric: Assay) -> None:
    page = Page(render(geometric, "html"))

    assert not page.open
    drawings = [attributes for tag, attributes in page.tags if tag == "svg" and attributes.get("role") == "img"]
    assert len(drawings) == 4
    assert all(attributes["aria-label"] for attributes in drawings)
    assert len([tag for tag, _ in page.tags if tag == "desc"]) == 4
    assert len([tag for tag, _ in page.tags if tag == "caption"]) == 4
    shades = {attributes.get("class") for tag, attributes in page.tags if tag == "g"}
    assert {"s0", "low5", "high5", "unobserved", "zero", "negative"} <= shades
    assert ("text", "0.25") in page.texts
    assert ("td", "0.25") in page.texts


def test_the_page_needs_no_network(geometric: Assay) -> None:
    text = render(geometric, "html")

    assert not re.findall(r"(?:src|href)=|url\(|@import|https?://(?!www\.w3\.org/2000/svg)", text)


@pytest.mark.parametrize("tag", ["style", "script"])
def test_the_content_policy_names_what_the_page_holds(agreeing: Assay, tag: str) -> None:
    text = render(agreeing, "html")
    found = re.findall(rf"<{tag}>(.*?)</{tag}>", text, re.DOTALL)

    assert len(found) == 1
    digest = base64.b64encode(hashlib.sha256(found[0].encode()).digest()).decode()
    assert re.search(rf"{tag}-src &#39;sha256-{re.escape(digest)}&#39;", text)


def test_names_cannot_bring_markup(broken: Assay) -> None:
    page = Page(render(broken, "html"))

    tags = [tag for tag, _ in page.tags]
    assert tags.count("script") == 1
    assert not {"img", "b", "i", "br"} & set(tags)
    assert any("<script>alert(1)</script>" in data for _, data in page.texts)
    assert not any(name.startswith("on") for _, attributes in page.tags for name in attributes)


def test_a_joint_law_and_each_assay_are_on_one_page(joint: tuple[tuple[Assay, ...], tuple[JointFinding, ...]]) -> None:
    page = Page(render_joint(*joint, "html"))

    assert ("h2", "One law for several runs") in page.texts
    assert len([tag for tag, _ in page.tags if tag == "h1"]) == 2


def test_parameters_that_do_not_agree_come_first(expert: Assay) -> None:
    page = Page(render(expert, "html"))

    verdicts = [data for tag, data in page.texts if tag == "td" and data in ("agree", "diverge")]
    assert verdicts == ["diverge"] * 24 + ["agree"] * 8
