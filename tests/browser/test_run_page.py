"""Inbox and run in a real Chromium: the keyboard, the table that htmx replaces, and charts under the strict policy."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from dashboards import Dashboard, opened

pytestmark = pytest.mark.browser

PICTURE = '(element) => element.querySelector("canvas").toDataURL()'
POINT = """
(element) => {
  const canvas = element.querySelector("canvas");
  const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
  for (let y = 60; y < canvas.height; y += 1)
    for (let x = 0; x < canvas.width; x += 1) {
      const [red, green, blue] = data.subarray(4 * (y * canvas.width + x), 4 * (y * canvas.width + x) + 3);
      if (red > 180 && green > 60 && green < 140 && blue < 100) return { x: x + 3, y: y + 4 };
    }
  return null;
}
"""
"""Where the first point of the experts, which are orange, is painted below the legend."""


@pytest.fixture(scope="module")
def dashboard(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Dashboard]:
    """One dashboard for all tests of this file."""
    with opened(tmp_path_factory.mktemp("dashboard")) as running:
        yield running


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


@pytest.fixture
def page(dashboard: Dashboard, runs: dict[str, str], window: Callable[..., Any]) -> Iterator[Page]:
    """A page of a person who may review; nothing may go wrong in it, a breach of the content policy least of all."""
    opened = window(dashboard.service)
    yield opened.page
    # Leaving a page cuts short what it was still loading.
    assert [trouble for trouble in opened.troubles if not trouble.endswith(" failed")] == []


def test_charts_are_painted_with_tooltips_under_the_policy(page: Page, runs: dict[str, str]):
    page.goto(f"/runs/{runs['experts']}")
    for name in ("ratio", "residual"):
        chart = page.locator(f"[data-chart={name}]")
        chart.scroll_into_view_if_needed()
        expect(chart.locator("canvas")).to_be_visible()
        point = chart.evaluate(POINT)
        assert point is not None
        before = chart.evaluate(PICTURE)
        chart.hover(position={"x": 4, "y": 80})
        chart.hover(position=point)
        page.wait_for_function(
            f"(before) => ({PICTURE})(document.querySelector('[data-chart={name}]')) !== before", arg=before
        )


def test_keyboard_walks_the_inbox(page: Page, runs: dict[str, str]):
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


def test_search_replaces_the_table_and_back_restores_it(page: Page, runs: dict[str, str]):
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
    page.locator("select[name=family]").select_option("expert")
    expect(page).to_have_url(re.compile(r"family=expert.*sort=ratio"))
    page.reload()
    expect(page.get_by_text("2 of 5 parameters")).to_be_visible()
    expect(page.get_by_label("Search")).to_have_value("expert")
    page.go_back()
    expect(page.locator("select[name=family]")).to_have_value("")
    page.go_back()
    expect(page.get_by_text("2 of 5 parameters, those that do not agree first")).to_be_visible()
    assert page.locator("[data-chart=ratio] canvas").count() == 1


def test_reason_of_a_rejection_is_typed_and_kept(page: Page, dashboard: Dashboard):
    page.goto(f"/runs/{dashboard.run(weights={'expert': 7.0}, framework='rejected')}")
    page.keyboard.press("r")
    page.keyboard.type("seven times too large")
    page.locator("details[data-reject]").get_by_role("button", name="Reject").click()
    expect(page.locator(".flash.done")).to_have_text("Rejected. The reason stays with the run.")
    expect(page.get_by_role("cell", name="seven times too large")).to_be_visible()


def test_command_is_copied(page: Page, dashboard: Dashboard, runs: dict[str, str]):
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.goto(f"/runs/{runs['experts']}")
    page.get_by_role("button", name="Copy as CLI").click()
    expect(page.get_by_role("button", name="Copied")).to_be_visible()
    assert page.evaluate("navigator.clipboard.readText()") == (
        f"gradassay diff golden:toy.float32@v1 run:{runs['experts']} --url {dashboard.service.url}"
    )
