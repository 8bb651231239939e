"""Every page in every width: nothing sticks out, nothing goes wrong, and an empty one says what to do."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

import demonstration
from browsing import PHONE, WIDE
from builders import make_golden, make_record, make_toy
from gradassay.goldens.container import digest_of_file
from gradassay.goldens.header import Framework, Source
from served import Service

pytestmark = [pytest.mark.browser]

SIZES = {"wide": WIDE, "phone": PHONE}
STICKS_OUT = """() => [...document.querySelectorAll("main *, header *, footer *")]
    .filter((one) => one.getBoundingClientRect().right > innerWidth + 1 && !one.closest(".scroll, nav.main"))
    .slice(0, 3).map((one) => one.outerHTML.slice(0, 120))"""
DRAWN = "() => [...document.querySelectorAll('[data-chart]')].every((one) => !one.clientWidth || one.querySelector('canvas'))"
UNNAMED = """() => [...document.querySelectorAll("main button, main a, main input, main select, main textarea")]
    .filter((one) => one.type !== "hidden" && one.offsetParent !== null)
    .filter((one) => !(one.textContent.trim() || one.ariaLabel || one.title || one.labels?.length))
    .map((one) => one.outerHTML.slice(0, 120))"""


def look(window, path: str) -> None:
    """Opens the page and asserts what holds of every page."""
    window.troubles.clear()
    answer = window.page.goto(path)
    assert answer is not None
    assert answer.status == (404 if path == "/nowhere" else 200)
    window.page.wait_for_function(DRAWN)
    assert window.page.evaluate("() => document.documentElement.scrollWidth <= innerWidth")
    assert window.page.evaluate(STICKS_OUT) == []
    assert window.page.evaluate(UNNAMED) == []
    assert window.page.locator("h1").count() == 1
    missing = f"the server responded with a status of {answer.status}"
    assert [trouble for trouble in window.troubles if missing not in trouble or answer.ok] == []


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_pages_fit_and_work(demonstrated: Service, window, size: str, scheme: str):
    opened = window(demonstrated, size=SIZES[size], scheme=scheme)
    for path in demonstration.pages(demonstrated.parts).values():
        look(opened, path)


@pytest.mark.parametrize("size", SIZES)
def test_empty_pages_fit_and_say_what_to_do(untouched: Service, window, size: str):
    opened = window(untouched, size=SIZES[size])
    pages = demonstration.pages(untouched.parts)
    for path in pages.values():
        look(opened, path)
    for name in ("inbox", "runs", "matrix", "goldens", "history", "ledger", "diff"):
        opened.page.goto(pages[name])
        empty = opened.page.locator(".empty")
        assert empty.locator("h2").count() == 1, name
        assert empty.locator("code, a").count() >= 1, name


@pytest.mark.parametrize("size", SIZES)
def test_long_names_stay_inside(service: Service, window, tmp_path: Path, size: str):
    toy = make_toy(name="problem-" + "x" * 90, families={"f" * 50: [(8, 8)], "dense": [(16, 4)]})
    toy = replace(toy, parameters=tuple(replace(one, name=one.name) for one in toy.parameters))
    file = tmp_path / "incoming.safetensors"
    made = make_golden(toy)
    replace(made, header=replace(made.header, environment={"torch": "2" * 120})).write(file)
    ledger = service.parts.ledger
    version = ledger.propose(file, who="w" * 100, project="default", why="y" * 300)
    record = make_record(toy, weights={"dense": 2.0}, strategy="s" * 90)
    header = replace(
        record.header,
        framework=Framework(name="framework" * 10, version="1." * 50),
        source=Source(commit="c" * 64),
    )
    replace(record, header=header).write(file)
    run, _ = service.parts.runs.post(file, digest_of_file(file), who="w" * 100, project="default")
    opened = window(service, size=SIZES[size])
    home = f"/goldens/{version.name}"
    for path in ("/", "/runs", f"/runs/{run.id}", "/goldens", home, f"{home}/v1", "/ledger", "/ledger/1"):
        look(opened, path)
    ledger.decide(version.name, 1, "approve", who="w" * 100, why="z" * 300, expected_version=0)
    for path in (
        "/",
        "/runs",
        f"/runs/{run.id}",
        "/matrix",
        "/history",
        "/ledger",
        home,
        f"/diff?a={run.id}&b={run.id}",
    ):
        look(opened, path)
