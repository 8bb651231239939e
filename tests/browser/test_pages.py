"""Inbox, run and diff in a real Chromium: no error, no breach of the policy, nothing beyond the window, keyboard."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Page, expect

from browsing import PHONE, WIDE
from dashboards import Dashboard

pytestmark = pytest.mark.browser

WIDER_THAN_WINDOW = """
[...document.querySelectorAll("body *")]
  .filter((element) => !element.closest(".scroll, nav.main, .skip, .hidden-label") && !element.closest("[hidden]"))
  .filter((element) => element.getBoundingClientRect().right > document.documentElement.clientWidth + 1)
  .map((element) => element.outerHTML.slice(0, 120))
"""
PAINTED = """
(element) => {
  const canvas = element.querySelector("canvas");
  const pixels = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
  return pixels.some((value, index) => index % 4 === 3 && value > 0);
}
"""


@pytest.fixture(scope="module")
def runs(dashboard: Dashboard) -> dict[str, str]:
    """Runs by what is wrong with them, all assayed."""
    found = {
        "agrees": dashboard.run(),
        "experts": dashboard.run(weights={"expert": 2.0}, framework="deepspeed"),
        "dense": dashboard.run(weights={"dense": 3.0}),
    }
    for run in found.values():
        assert dashboard.reviewer.get(f"/runs/{run}").status_code == 200
    return found


def paths(runs: dict[str, str]) -> list[str]:
    return [
        "/",
        "/runs",
        "/diff",
        f"/diff?a={runs['agrees']}&b={runs['experts']}",
        *(f"/runs/{run}" for run in runs.values()),
    ]


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", [WIDE, PHONE], ids=["wide", "phone"])
def test_pages_fit_and_draw_without_any_error(dashboard, runs, open_page, scheme: str, size: tuple[int, int]):
    page: Page = open_page(dashboard.service, size=size, color_scheme=scheme)
    for path in paths(runs):
        page.goto(path)
        for chart in page.locator("[data-chart]").all():
            expect(chart.locator("canvas")).to_be_visible()
            assert chart.evaluate(PAINTED), path
        assert page.evaluate(WIDER_THAN_WINDOW) == [], path
        assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0, path


def test_hovering_over_points_breaches_nothing(dashboard, runs, open_page):
    page: Page = open_page(dashboard.service)
    page.goto(f"/runs/{runs['experts']}")
    chart = page.locator("[data-chart=residual]")
    chart.scroll_into_view_if_needed()
    box = chart.bounding_box()
    for step in range(1, 40):
        page.mouse.move(box["x"] + box["width"] * step / 40, box["y"] + box["height"] * 0.3)
    assert chart.locator("[style*=position]").count() >= 0


def test_keyboard_walks_the_inbox(dashboard, runs, open_page):
    page: Page = open_page(dashboard.service)
    page.goto("/")
    entries = page.locator("[data-entry]")
    expect(entries).to_have_count(2)
    page.keyboard.press("j")
    expect(entries.nth(0)).to_have_attribute("aria-current", "true")
    page.keyboard.press("j")
    page.keyboard.press("j")
    expect(entries.nth(1)).to_have_attribute("aria-current", "true")
    page.keyboard.press("k")
    expect(entries.nth(0)).to_be_focused()
    page.keyboard.press("a")
    accept = entries.nth(0).locator("details[data-accept]")
    expect(accept.locator("textarea")).to_be_focused()
    page.keyboard.type("jar")
    expect(accept.locator("textarea")).to_have_value("jar")
    page.keyboard.press("Escape")
    expect(accept).not_to_have_attribute("open", "")
    page.keyboard.press("r")
    expect(entries.nth(0).locator("details[data-reject] textarea")).to_be_focused()
    page.keyboard.press("Escape")
    page.keyboard.press("?")
    expect(page.locator("dialog#help")).to_be_visible()
    page.keyboard.press("Escape")
    page.keyboard.press("j")
    page.keyboard.press("k")
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile(r"/runs/\w+$"))


def test_search_replaces_the_table_and_back_restores_it(dashboard, runs, open_page):
    page: Page = open_page(dashboard.service)
    page.goto(f"/runs/{runs['experts']}")
    page.keyboard.press("/")
    expect(page.get_by_label("Search")).to_be_focused()
    page.keyboard.type("expert.1")
    expect(page.get_by_text("1 of 5 parameters")).to_be_visible()
    expect(page).to_have_url(re.compile(r"\?.*q=expert\.1"))
    expect(page.get_by_label("Search")).to_be_focused()
    page.get_by_label("Search").fill("expert")
    expect(page.get_by_text("2 of 5 parameters")).to_be_visible()
    page.get_by_role("link", name="ratio").click()
    expect(page).to_have_url(re.compile(r"q=expert.*sort=ratio"))
    expect(page.locator("th[aria-sort=ascending]")).to_have_text("ratio")
    page.get_by_label("Family").select_option("expert")
    expect(page).to_have_url(re.compile(r"family=expert.*sort=ratio"))
    page.reload()
    expect(page.get_by_text("2 of 5 parameters")).to_be_visible()
    expect(page.get_by_label("Search")).to_have_value("expert")
    page.go_back()
    page.go_back()
    expect(page.get_by_text("2 of 5 parameters, those that do not agree first")).to_be_visible()
    assert page.locator("[data-chart=ratio] canvas").count() == 1


def test_theme_is_kept_and_charts_follow(dashboard, runs, open_page):
    page: Page = open_page(dashboard.service, color_scheme="light")
    page.goto(f"/runs/{runs['experts']}")
    expect(page.locator("[data-chart=ratio] canvas")).to_be_visible()
    background = "getComputedStyle(document.body).backgroundColor"
    light = page.evaluate(background)
    page.get_by_role("button", name="Switch between light and dark").click()
    dark = page.evaluate(background)
    assert dark != light
    expect(page.locator("[data-chart=ratio] canvas")).to_be_visible()
    page.goto("/")
    assert page.evaluate(background) == dark


def test_rejecting_with_a_reason_takes_it_from_the_inbox(dashboard, runs, open_page):
    run = dashboard.run(weights={"norm": 1.0, "expert": 7.0}, framework="rejected")
    page: Page = open_page(dashboard.service)
    page.goto(f"/runs/{run}")
    page.keyboard.press("r")
    page.keyboard.type("seven times too large")
    page.locator("details[data-reject]").get_by_role("button", name="Reject").click()
    expect(page.locator(".flash.done")).to_have_text("Rejected. The reason stays with the run.")
    expect(page.get_by_role("cell", name="seven times too large")).to_be_visible()
    page.goto("/?framework=rejected")
    expect(page.get_by_text("Nothing fits these filters").or_(page.get_by_text("Nothing to review"))).to_be_visible()


def test_everything_works_without_scripts(dashboard, runs, open_page):
    page: Page = open_page(dashboard.service, java_script_enabled=False)
    page.goto(f"/runs/{runs['experts']}")
    page.get_by_label("Search").fill("expert.1")
    page.locator("#parameter-filters").get_by_role("button", name="Show").click()
    expect(page.get_by_text("1 of 5 parameters")).to_be_visible()
    page.get_by_role("link", name="ratio").click()
    expect(page).to_have_url(re.compile(r"q=expert\.1.*sort=ratio"))
    expect(page.get_by_role("button", name="Copy as CLI")).to_be_hidden()
    page.goto("/")
    entry = page.locator("[data-entry]").first
    entry.locator("details[data-accept] summary").click()
    expect(entry.locator("details[data-accept] textarea")).to_be_visible()
