"""From CI's post to a decision, in a real browser: what the issue promises of the dashboard."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import demonstration
from builders import make_golden, make_record, make_toy
from gradassay.api.ledger.deciding import Decision
from gradassay.goldens.golden import Golden
from gradassay.goldens.layout import Layout
from served import Service, mint

pytestmark = [pytest.mark.browser]

NAME = "moe.float32"


@pytest.fixture
def toy():
    """A problem with experts."""
    return make_toy(name="moe", families={"dense": [(24, 16)] * 2, "expert": [(40, 30)] * 4, "norm": [(16,)]})


@pytest.fixture
def golden(service: Service, toy, tmp_path: Path) -> Golden:
    """Its golden, approved as version 1."""
    made = make_golden(toy)
    propose(service, made, tmp_path)
    service.parts.ledger.decide(NAME, 1, Decision.APPROVE, who="ada", why="first", expected_version=0)
    return made


def propose(service: Service, made: Golden, folder: Path) -> int:
    """The number of the version, proposed as a CI job would."""
    headers = mint(service, "post", name="ci-goldens") | {"Content-Type": "application/octet-stream"}
    content = made.to_bytes()
    answer = service.anonymous.post(f"/api/v1/goldens/{made.name}/versions", content=content, headers=headers)
    assert answer.status_code == 201, answer.text
    return int(answer.json()["version"])


def post_diverging(service: Service, toy, layout: Layout) -> str:
    """The id of a run whose experts are ep times too large, posted as a CI job would."""
    record = make_record(
        toy, layout=layout, weights={"expert": float(layout.ep)}, strategy="deepspeed-zero2", framework="deepspeed"
    )
    headers = mint(service, "post", name="ci-nightly") | {"Content-Type": "application/octet-stream"}
    answer = service.anonymous.post("/api/v1/runs", content=record.to_bytes(), headers=headers)
    assert answer.status_code == 201
    return str(answer.json()["id"])


def test_diverging_run_is_found_read_and_rejected(service: Service, toy, golden: Golden, window):
    layouts = (Layout(dp=4, ep=2, accum=3), Layout(dp=4, ep=4, accum=2))
    runs = [post_diverging(service, toy, layout) for layout in layouts]
    opened = window(service)
    page = opened.page
    sentence = "4 expert parameters, w = ep, in 2 layouts, like DeepSpeed #6545"
    page.wait_for_function(
        "async (text) => (await (await fetch('/')).text()).includes(text)", arg=sentence, polling=200
    )
    page.goto("/")
    entry = page.locator(".entry", has_text=sentence)
    assert entry.count() == 1
    assert "ci-nightly" in entry.inner_text()
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    page.wait_for_url(re.compile(f"/runs/({'|'.join(runs)})$"))
    assert page.locator(".formula").first.inner_text() == "w[r,m] = ep"
    assert "deepspeed-6545" in page.locator("main").inner_text()
    heatmap = page.locator("svg[aria-label]").first
    heatmap.scroll_into_view_if_needed()
    cells = heatmap.locator(".value").all_text_contents()
    assert cells in (["2"] * 12, ["4"] * 8)
    page.keyboard.press("r")
    form = page.locator("details[data-reject][open]")
    form.locator("textarea").fill("DeepSpeed 0.15.3: upgrade to 0.15.4")
    form.get_by_role("button", name="Reject").click()
    page.wait_for_selector(".flash.done, .flash:not(.failed):not([hidden])")
    assert "DeepSpeed 0.15.3: upgrade to 0.15.4" in page.locator("main").inner_text()
    other = next(run for run in runs if run not in page.url)
    page.goto("/")
    assert page.locator(".entry a[data-open]").first.get_attribute("href") == f"/runs/{other}"
    assert (
        "in 1 layout" in page.locator(".entry h2").inner_text() or "2 layouts" not in page.locator("main").inner_text()
    )
    assert opened.troubles == []


@pytest.mark.parametrize("first", ["approve", "reject"])
def test_of_two_racing_reviewers_one_wins_and_the_other_is_told(
    service: Service, golden: Golden, tmp_path: Path, window, first: str
):
    number = propose(service, demonstration.rounded(golden, size=1e-8), tmp_path)
    path = f"/goldens/{NAME}/v{number}"
    ada, grace = window(service, who="ada"), window(service, who="grace")
    for person, key, reason in ((ada, "a", "only rounding"), (grace, "r", "rerun it on the new image")):
        person.page.goto(path)
        person.page.keyboard.press(key)
        person.page.locator("details.action[open] textarea").fill(reason)
    order = (ada, grace) if first == "approve" else (grace, ada)
    for person in order:
        person.page.locator("details.action[open] button[type=submit]").click(no_wait_after=True)
    for person in order:
        person.page.wait_for_selector(".flash:not([hidden])")
    told = [person for person in order if person.page.locator("#refused").count()]
    assert len(told) == 1
    loser = told[0]
    winner = order[0] if loser is order[1] else order[1]
    names = {id(ada): ("ada", "only rounding"), id(grace): ("grace", "rerun it on the new image")}
    refusal = loser.page.locator("#refused").inner_text()
    for words in names[id(winner)]:
        assert words in refusal
    assert names[id(loser)][1] in [box.input_value() for box in loser.page.locator("textarea").all()]
    decided = {"approved": number if winner is ada else 1}
    assert service.parts.ledger.channels(NAME) == decided
    assert "409" in "".join(loser.troubles)
    assert winner.troubles == []


def test_everything_is_decided_without_scripts(service: Service, toy, golden: Golden, tmp_path: Path, window):
    number = propose(service, demonstration.rounded(golden, size=1e-8), tmp_path)
    page = window(service, scripts=False).page
    page.goto("/goldens")
    page.click(f"text={NAME} v{number}")
    page.click("summary:has-text('Approve')")
    page.fill("details[data-accept] textarea", "looked at every family")
    page.click("details[data-accept] button[type=submit]")
    assert "is approved" in page.locator(".flash").first.inner_text()
    page.click("text=undo…")
    page.fill("#undo textarea", "too early")
    page.click("#undo button[type=submit]")
    assert "undone" in page.locator(".flash").first.inner_text()
    assert service.parts.ledger.channels(NAME) == {"approved": 1}
    page.goto("/matrix")
    assert page.locator("[data-chart]:visible").count() == 0


def test_filters_without_reload_are_in_the_address(demonstrated: Service, window):
    opened = window(demonstrated)
    page = opened.page
    page.goto("/matrix")
    page.select_option("select[name=framework]", "deepspeed")
    page.wait_for_url("**/matrix?*framework=deepspeed*")
    page.wait_for_selector("select[name=version]")
    assert page.locator("tbody th").all_inner_texts() == ["deepspeed-zero2\ndeepspeed", "deepspeed-zero3\ndeepspeed"]
    page.select_option("select[name=version]", "0.15.3")
    page.wait_for_url("**version=0.15.3*")
    page.wait_for_function("() => document.querySelectorAll('tbody .cell.diverge').length === 2")
    page.reload()
    assert page.locator("tbody .cell").count() == 2
    page.go_back()
    page.wait_for_function("() => document.querySelectorAll('tbody .cell').length > 2")
    page.goto("/faults")
    page.fill("input[name=q]", "megatron buffer")
    page.wait_for_url("**/faults?q=megatron*buffer")
    page.wait_for_function("() => document.querySelectorAll('.entry').length === 1")
    assert opened.troubles == []


def test_charts_follow_the_theme(demonstrated: Service, window):
    opened = window(demonstrated)
    page = opened.page
    page.goto(demonstration.pages(demonstrated.parts)["version"])
    page.wait_for_selector("[data-chart] canvas")
    before = page.evaluate("() => document.querySelector('[data-chart] canvas').toDataURL()")
    page.click("[data-theme-switch]")
    assert page.evaluate("() => document.documentElement.dataset.theme") == "dark"
    after = page.evaluate("() => document.querySelector('[data-chart] canvas').toDataURL()")
    assert before != after
    page.reload()
    assert page.evaluate("() => document.documentElement.dataset.theme") == "dark"
    assert opened.troubles == []
