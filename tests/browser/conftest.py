"""Debian's Chromium, headless, and services for it to look at."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, Playwright, Request, sync_playwright

import demonstration
from browsing import ARGUMENTS, EXECUTABLE, WIDE
from gradassay.api.auth.scope import Scope
from served import Service, serving

LIMIT = 64_000_000
PATIENCE_MS = 30_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """One window of one person. troubles: what went wrong in it: errors of scripts, of the console, of requests."""

    context: BrowserContext
    page: Page
    troubles: list[str] = field(default_factory=list)


@pytest.fixture(scope="session")
def playwright() -> Iterator[Playwright]:
    """Playwright, without a browser of its own."""
    with sync_playwright() as started:
        yield started


@pytest.fixture(scope="session")
def chromium(playwright: Playwright) -> Iterator[Browser]:
    """One browser for all tests; windows of different people share nothing in it."""
    browser = playwright.chromium.launch(executable_path=EXECUTABLE, args=list(ARGUMENTS))
    yield browser
    browser.close()


@pytest.fixture(scope="session")
def demonstrated(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """A service with the demonstration's month; tests only look at it."""
    folder = tmp_path_factory.mktemp("demonstrated")
    with serving(folder, uploads=folder, max_upload_bytes=LIMIT) as service:
        demonstration.seed(service.parts, folder)
        yield service


@pytest.fixture(scope="session")
def untouched(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """A service that nobody has posted to; tests only look at it."""
    folder = tmp_path_factory.mktemp("untouched")
    with serving(folder, uploads=folder) as service:
        yield service


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    """An empty service of the test's own."""
    with serving(tmp_path, uploads=tmp_path, max_upload_bytes=LIMIT) as running:
        yield running


@pytest.fixture
def window(chromium: Browser) -> Iterator[Callable[..., Window]]:
    """Opens a window of a person who is logged in; see `opened`."""
    contexts: list[BrowserContext] = []

    def opened(
        service: Service, *, who: str = "ada", size: tuple[int, int] = WIDE, scripts: bool = True, scheme: str = "light"
    ) -> Window:
        context = chromium.new_context(
            base_url=service.url,
            viewport={"width": size[0], "height": size[1]},
            java_script_enabled=scripts,
            color_scheme="dark" if scheme == "dark" else "light",
            reduced_motion="reduce",
        )
        context.set_default_timeout(PATIENCE_MS)
        contexts.append(context)
        token, secret = service.parts.tokens.create(name=who, scopes=list(Scope), by="tests", project="default")
        assert token.name == who
        page = context.new_page()
        page.goto("/login")
        page.fill("input[name=token]", secret)
        page.click("form[action='/login'] button")
        page.wait_for_url("**/")
        made = Window(context=context, page=page)
        _watch(made, service)
        return made

    yield opened
    for context in contexts:
        context.close()


def _watch(window: Window, service: Service) -> None:
    page, troubles = window.page, window.troubles
    page.on("console", lambda message: troubles.append(message.text) if message.type in ("error", "warning") else None)
    page.on("pageerror", lambda error: troubles.append(str(error)))
    page.on("requestfailed", lambda request: _failed(request, troubles))
    page.on(
        "request",
        lambda request: None if request.url.startswith(service.url) else troubles.append(f"asked {request.url}"),
    )


def _failed(request: Request, troubles: list[str]) -> None:
    # Whoever goes to the next page leaves what the last one was still loading.
    if request.failure != "net::ERR_ABORTED":
        troubles.append(f"{request.url} failed: {request.failure}")
