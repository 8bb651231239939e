"""A real Chromium, and pages in it that fail their test at any error or breach of the content policy."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

from browsing import ARGUMENTS, EXECUTABLE, WIDE
from dashboards import Dashboard, opened
from gradassay.api.auth.guard import COOKIE
from served import Service

WATCH = """
window.breaches = [];
document.addEventListener("securitypolicyviolation", (event) =>
  window.breaches.push(`${event.violatedDirective} ${event.blockedURI} ${event.sourceFile}:${event.lineNumber}`));
"""


@pytest.fixture(scope="session")
def chromium() -> Iterator[Browser]:
    """Debian's Chromium, headless."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=EXECUTABLE, args=list(ARGUMENTS))
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def dashboard(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Dashboard]:
    """One dashboard for all tests of a file."""
    with opened(tmp_path_factory.mktemp("dashboard")) as running:
        yield running


@pytest.fixture
def open_page(chromium: Browser) -> Iterator[Callable[..., Page]]:
    """Opens a page of a service, logged in; options are those of a browser's context.

    At the end of the test there must have been no error on any console and no breach of the content policy.
    """
    trouble: list[str] = []
    with ExitStack() as stack:
        pages: list[Page] = []

        def opened_page(service: Service, *, size: tuple[int, int] = WIDE, **options: Any) -> Page:
            context = chromium.new_context(
                base_url=service.url, viewport={"width": size[0], "height": size[1]}, **options
            )
            stack.callback(context.close)
            link = service.parts.logins.link(who="ada", project="default")
            secret = service.parts.logins.follow(link.rpartition("/")[2]).secret
            context.add_cookies([{"name": COOKIE, "value": secret, "url": service.url}])
            context.add_init_script(WATCH)
            page = context.new_page()
            page.set_default_timeout(20_000)
            page.on("console", lambda said: trouble.append(said.text) if said.type in ("error", "warning") else None)
            page.on("pageerror", lambda error: trouble.append(str(error)))
            if options.get("java_script_enabled", True):
                page.on("load", lambda loaded: trouble.extend(loaded.evaluate("window.breaches")))
            pages.append(page)
            return page

        yield opened_page
        for page in pages:
            if page.url.startswith("http") and page.evaluate("typeof breaches") != "undefined":
                trouble.extend(page.evaluate("breaches"))
    assert trouble == []
