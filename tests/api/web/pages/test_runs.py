"""The list of runs."""

from __future__ import annotations

import re

from gradassay.api.web.pages import runs
from gradassay.goldens.layout import Layout


def listed(page: str) -> list[str]:
    return re.findall(r'data-open href="/runs/(\w+)"', page)


def test_empty_list_says_how_to_post(fresh):
    page = fresh.reviewer.get("/runs").text
    assert "No run has been posted yet" in page
    assert "gradassay post run.safetensors" in page


def test_runs_are_listed_newest_first_with_their_verdicts(fresh):
    ids = [fresh.run(), fresh.run(weights={"expert": 2.0}, strategy="deepspeed-zero2", layout=Layout(dp=2, ep=2))]
    for run in ids:
        fresh.reviewer.get(f"/runs/{run}")
    page = fresh.reviewer.get("/runs").text
    assert listed(page) == ids[::-1]
    assert page.index("diverge") < page.index("agree</span>")
    assert "dp2.ep2" in page


def test_filters_are_in_the_address_and_the_rest_is_left_out(fresh):
    run = fresh.run(strategy="zero<1>", framework="deepspeed")
    fresh.run()
    page = fresh.reviewer.get("/runs", params={"strategy": "zero<1>", "framework": "deepspeed"}).text
    assert listed(page) == [run]
    assert '<option value="zero&lt;1&gt;" selected>' in page
    assert "zero<1>" not in page
    assert "No run fits these filters" in fresh.reviewer.get("/runs", params={"problem": "none"}).text


def test_older_runs_follow_by_cursor(fresh, monkeypatch):
    monkeypatch.setattr(runs, "PAGE_SIZE", 2)
    ids = [fresh.run() for _ in range(5)]
    seen, path = [], "/runs?framework=torch"
    while path:
        page = fresh.reviewer.get(path).text
        seen += listed(page)
        older = re.search(r'rel="next" href="([^"]+)"', page)
        path = older[1].replace("&amp;", "&") if older else ""
        assert not path or "framework=torch" in path
    assert seen == ids[::-1]
    assert ">Newest</a>" in page


def test_cursor_of_nobody_is_refused(fresh):
    assert fresh.reviewer.get("/runs?before=x").status_code == 400
