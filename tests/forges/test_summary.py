"""A job's result as Markdown: what it says, that hostile texts show as they are, and that no limit is passed."""

from __future__ import annotations

import re
from html.parser import HTMLParser

import pytest
from markdown_it import MarkdownIt

from forges.results import HOSTILE, agrees, diverges, failed, result
from gradassay.forges.capped import GITHUB_COMMENT, GITLAB_COMMENT, SUMMARY, Limit, utf8_length
from gradassay.forges.escaping import code, link, prose, shortened
from gradassay.forges.outcome import CiResult
from gradassay.forges.summary import SHORTEST, summarise
from gradassay.goldens.errors import Exit


class Page(HTMLParser):
    """What a browser would show: texts, elements, addresses, and tables as rows of cells."""

    def __init__(self, markdown: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[str] = []
        self.addresses: list[str] = []
        self.rows: list[list[str]] = []
        self.codes: list[str] = []
        self.text = ""
        self._open: list[str] = []
        self.feed(MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"]).render(markdown))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append(tag)
        self._open.append(tag)
        self.addresses += [value or "" for name, value in attrs if name in ("href", "src")]
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th"):
            self.rows[-1].append("")
        if tag == "code":
            self.codes.append("")

    def handle_endtag(self, tag: str) -> None:
        if tag in self._open:
            while self._open.pop() != tag:
                pass

    def handle_data(self, data: str) -> None:
        self.text += data
        if {"td", "th"} & set(self._open):
            self.rows[-1][-1] += data
        if "code" in self._open:
            self.codes[-1] += data


def seen(text: str) -> str:
    """As a reader sees it: a space of no width is none."""
    return text.replace("\u200b", "")


def test_a_divergence_is_said_with_law_parameters_fault_and_link() -> None:
    page = Page(summarise(result(agrees(), diverges(), diverges("toy/zero2/dp4.ep2.accum3", line=8)), GITHUB_COMMENT))

    assert "Gradients diverge in 2 of 3 cells" in page.text
    assert page.text.count("expert parameters are too large by a factor of ep = 2") == 1
    assert "w[r,m] = ep" in page.codes
    assert {"expert.0.weight", "expert.1.weight", "deepspeed-6545", "toy/zero2/dp4.ep2.accum3"} <= set(page.codes)
    assert "ZeRO averages expert gradients" in page.text
    assert "http://127.0.0.1:1/runs/r1" in page.addresses
    assert len(page.rows) == 4
    assert page.rows[1][:2] == ["toy/ddp/dp2.accum3", "✅ agree"]


@pytest.mark.parametrize(
    ("job", "said"),
    [
        (result(agrees(), agrees("b")), "Gradients agree with their goldens: 2 cells"),
        (result(agrees(), diverges(exit=0, accepted=True)), "or diverge as a reviewer has accepted (1): 2 cells"),
        (result(failed("a"), failed("b"), agrees()), "a, b: there is no golden of toy.float32"),
        (result(agrees(), failed()), "There is no golden to compare with: 1 of 2 cells"),
        (result(failed(exit=11, error="the service does not answer")), "the job can be repeated"),
        (result(exit=10, notes=("401 from the service",)), "401 from the service"),
        (result(skipped="no file below src/ has changed"), "Nothing was run: no file below src/ has changed."),
        (result(exit=99), "exit code 99"),
    ],
)
def test_what_a_job_came_to_is_said_first(job: CiResult, said: str) -> None:
    assert said in seen(Page(summarise(job, GITHUB_COMMENT)).text)


def test_what_to_do_next_stands_below_as_it_is_typed() -> None:
    hint = "make one:\ngradassay golden build toy --dtype float32\ngradassay golden approve toy.float32 VERSION"
    page = Page(summarise(result(failed(hint=hint)), GITHUB_COMMENT))

    assert {"gradassay golden build toy --dtype float32", "gradassay golden approve toy.float32 VERSION"} <= set(
        page.codes
    )
    assert "make one:" in page.text


@pytest.mark.parametrize("code", [code for code in Exit if code is not Exit.AGREE])
def test_only_a_pass_looks_like_one(code: Exit) -> None:
    headline = summarise(result(failed(exit=int(code)), exit=int(code)), GITHUB_COMMENT).splitlines()[0]
    assert "✅" not in headline
    assert "agree" not in headline


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_texts_show_as_they_are(text: str) -> None:
    job = result(
        agrees(text),
        diverges(text, sentence=text, golden=text, assay=None, law=text, link=f"javascript:{text}"),
        failed(text, error=text, hint=text),
        exit=1,
        matrix=text,
        notes=(text,),
    )
    markdown = summarise(job, GITHUB_COMMENT, job_url=text)
    page = Page(markdown)

    harmless = {
        "h3",
        "p",
        "strong",
        "ul",
        "li",
        "details",
        "summary",
        "table",
        "thead",
        "tbody",
        "tr",
        "th",
        "td",
        "code",
        "sub",
    }
    assert set(page.elements) <= harmless
    assert page.addresses == []
    assert len(page.rows) == 4
    assert {len(row) for row in page.rows} == {5}
    assert [row[0] for row in page.rows[1:]] == [shortened(text)] * 3
    assert seen(page.text).count(shortened(text)) >= 8
    assert not re.search(r"(?<![\w`])@\w", re.sub(r"<code>.*?</code>", "", markdown))


def test_mentions_and_references_are_parted() -> None:
    shown = prose("@ada fixed #12 as a@b.example, GH-3, !4 ~bug 50% off")
    assert shown == (
        "@&#8203;ada fixed #&#8203;12 as a@&#8203;b.example, GH-&#8203;3, !&#8203;4 &#126;&#8203;bug 50% off"
    )


def test_a_name_is_cut_between_characters() -> None:
    assert len(shortened("🎉" * 500)) == 300
    assert shortened("🎉" * 500) == "🎉" * 299 + "…"
    assert "🎉" in code("🎉|")


@pytest.mark.parametrize("address", ["javascript:alert(1)", "data:text/html,x", "http://[", "", "//host/x"])
def test_only_pages_are_linked(address: str) -> None:
    assert link("review", address) == "review"


def test_an_address_cannot_end_its_link() -> None:
    assert link("review", "http://h/a> [x](y)|") == "[review](<http://h/a%3E%20[x](y)%7C>)"


def many(count: int, name: str) -> CiResult:
    return result(*(diverges(f"{name}-{number}", line=number + 1) for number in range(count)), notes=("the last note",))


@pytest.mark.parametrize("limit", [GITHUB_COMMENT, GITLAB_COMMENT, SUMMARY])
@pytest.mark.parametrize(("name", "count"), [("plain", 7_000), ("日本語🎉|" * 40, 2_500)])
def test_limits_are_kept_by_whole_rows(limit: Limit, name: str, count: int) -> None:
    job = many(count, name)
    markdown = summarise(job, limit)

    assert limit.most * 0.9 < limit.length(markdown) <= limit.most
    (left,) = (int(found) for found in re.findall(r"_(\d+) more rows had no room", markdown))
    rows = [line for line in markdown.splitlines() if line.startswith("| <code>")]
    assert len(rows) + left == count
    assert all(row.endswith("|") and row.count(" | ") == 4 for row in rows)
    assert "the last note" in markdown
    assert markdown.endswith("</sub>\n")
    assert markdown.count("<details>") == markdown.count("</details>") == 1


def test_what_fits_is_left_out_nowhere() -> None:
    markdown = summarise(many(40, "cell"), GITHUB_COMMENT)
    assert "no room" not in markdown
    assert markdown.count("\n| <code>") == 40


@pytest.mark.parametrize("most", [*range(0, 400, 40), 1_000, SHORTEST, SHORTEST + 1, 20_000])
def test_no_limit_is_passed_however_small(most: int) -> None:
    laws = [
        diverges(f"{text}{number}", assay=None, law=f"{text}{number}", sentence=text)
        for number in range(30)
        for text in HOSTILE
    ]
    job = result(*laws, *(failed(text, error=text) for text in HOSTILE), notes=HOSTILE, matrix=HOSTILE[0] * 99)
    for length in (len, utf8_length):
        assert length(summarise(job, Limit(most=most, length=length), job_url=f"http://h/{HOSTILE[-1]}")) <= most
