"""The inbox: what waits, in one sentence each, and deciding about it."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

import pytest

from gradassay.api.judging.law import law_id
from gradassay.goldens.layout import Layout

EP_LAW = law_id(["expert"], "uniform", "w[r,m] = ep")
SOON = f"{datetime.now(UTC) + timedelta(days=9):%Y-%m-%d}"


def settled(dashboard, *runs: str) -> None:
    """Waits until the runs have been assayed."""
    for run in runs:
        assert dashboard.reviewer.get(f"/runs/{run}").status_code == 200


def sentences(page: str) -> list[str]:
    return re.findall(r'<a data-open href="/runs/\w+">([^<]+)</a></h2>', page)


def test_empty_service_says_how_to_post(fresh):
    page = fresh.reviewer.get("/").text
    assert "No run has been posted yet" in page
    assert f"gradassay post run.safetensors --url {fresh.service.url}" in page
    assert f"{fresh.service.url}/api/v1/runs" in page


def test_nothing_to_review_says_so(fresh):
    settled(fresh, fresh.run())
    assert "Nothing to review" in fresh.reviewer.get("/").text


def test_one_law_in_several_layouts_is_one_sentence(fresh):
    layouts = (Layout(dp=4, ep=2, accum=2), Layout(dp=8, ep=2), Layout(dp=2, ep=2, accum=3))
    runs = [fresh.run(weights={"expert": 2.0}, framework="deepspeed", layout=layout) for layout in layouts]
    settled(fresh, *runs, fresh.run(weights={"dense": 3.0}))
    page = fresh.reviewer.get("/").text
    assert "2 expert parameters, w = ep, in 3 layouts, like DeepSpeed #6545" in sentences(page)
    assert len(sentences(page)) == 2
    for run in runs:
        assert f'href="/runs/{run}"' in page
    assert "posted by test" in page


@pytest.mark.parametrize(
    ("query", "shown"),
    [({}, 2), ({"framework": "deepspeed"}, 1), ({"framework": "deepspeed", "problem": "toy", "dtype": "float32"}, 1)],
)
@pytest.mark.parametrize("by_htmx", [False, True], ids=["page", "htmx"])
def test_filters_are_in_the_address(fresh, query: dict, shown: int, by_htmx: bool):
    settled(fresh, fresh.run(weights={"expert": 2.0}, framework="deepspeed"), fresh.run(weights={"dense": 3.0}))
    headers = {"HX-Request": "true", "HX-Target": "groups"} if by_htmx else {}
    page = fresh.reviewer.get("/", params=query, headers=headers).text
    assert len(sentences(page)) == shown
    assert page.lstrip().startswith('<div id="groups">') == by_htmx
    if query and not by_htmx:
        assert '<option value="deepspeed" selected>' in page


def test_filter_that_fits_nothing_leads_back(fresh):
    settled(fresh, fresh.run(weights={"expert": 2.0}))
    page = fresh.reviewer.get("/", params={"framework": "<none>"}).text
    assert "Nothing fits these filters" in page
    assert '<option value="&lt;none&gt;" selected>' in page


@pytest.mark.parametrize(("decision", "word"), [("accept", "Accepted"), ("reject", "Rejected")])
def test_deciding_empties_the_group_and_says_so(fresh, decision: str, word: str):
    runs = [
        fresh.run(weights={"expert": 2.0}),
        fresh.run(weights={"expert": 2.0}),
        fresh.run(weights={"expert.0.weight": 2.0}),
    ]
    settled(fresh, *runs)
    after = fresh.decide(
        "/", law=EP_LAW, golden="toy.float32", framework="torch", decision=decision, reason="known", expires=SOON
    )
    assert after.url.path == "/"
    assert f"{word} in 3 runs: " in after.text
    assert "w = ep" in after.text
    assert "Nothing to review" in after.text
    again = fresh.reviewer.get(f"/runs/{runs[0]}").text
    assert "known" in again


def test_deciding_without_reason_leaves_the_group(fresh):
    settled(fresh, fresh.run(weights={"expert": 2.0}))
    after = fresh.decide("/", law=EP_LAW, golden="toy.float32", framework="torch", decision="reject", reason="")
    assert "a reason of 1 to" in after.text
    assert len(sentences(after.text)) == 1


def test_frameworks_of_one_law_are_decided_about_on_their_own(fresh):
    settled(fresh, fresh.run(weights={"expert": 2.0}), fresh.run(weights={"expert": 2.0}, framework="deepspeed"))
    assert len(sentences(fresh.reviewer.get("/").text)) == 2
    fields = {"law": EP_LAW, "golden": "toy.float32", "decision": "reject", "reason": "known"}
    after = fresh.decide("/", **fields, framework="deepspeed")
    assert "Rejected in 1 run: " in after.text
    assert len(sentences(after.text)) == 1


def test_group_that_somebody_else_decided_about_is_told(fresh):
    settled(fresh, fresh.run(weights={"expert": 2.0}))
    after = fresh.decide("/", law="other", golden="toy.float32", framework="torch", decision="reject", reason="x")
    assert "no longer in the inbox" in after.text
