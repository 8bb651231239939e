"""Screenshots of every page of the dashboard, over a demonstration folder that it fills first.

1. PYTHONPATH=tests python ci/screenshots.py
2. PYTHONPATH=tests python ci/screenshots.py --only inbox run --folder build/screenshots
With --documented those that documentation shows are written to docs/screenshots/ as well.
"""

from __future__ import annotations

import argparse
import logging
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from playwright.sync_api import Browser, Page, sync_playwright
from sqlalchemy import delete

import demonstration
from browsing import ARGUMENTS, EXECUTABLE, PHONE, WIDE
from gradassay.api.database.tables import TokenRow
from gradassay.api.operations.logs import configure_logs
from gradassay.api.settings import ServiceSettings
from served import Service, serving

ROOT = Path(__file__).parent.parent
DOCUMENTED = ROOT / "docs" / "screenshots"
SHOWN = {"inbox-light", "run-dark", "matrix-light", "version-light"}
"""The screenshots that docs/dashboard.md and README show, of what fits into a window without scrolling."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """One way to look at a page."""

    name: str
    width: int
    height: int
    scheme: str


LOOKS = (
    Look(name="light", width=WIDE[0], height=WIDE[1], scheme="light"),
    Look(name="dark", width=WIDE[0], height=WIDE[1], scheme="dark"),
    Look(name="phone", width=PHONE[0], height=PHONE[1], scheme="light"),
)


def main() -> int:
    """Writes the screenshots and returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="*", default=(), help="names of pages, as in `inbox run`; all by default")
    parser.add_argument("--folder", type=Path, default=ROOT / "build" / "screenshots", help="where they are written")
    parser.add_argument("--documented", action="store_true", help="also write those that documentation shows")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    configure_logs()
    logging.getLogger().setLevel(logging.WARNING)
    written = 0
    for prefix, filled in (("", True), ("empty-", False)):
        with dashboard(filled=filled) as (service, browser, pages):
            for look in LOOKS:
                for name, path in pages.items():
                    if options.only and f"{prefix}{name}" not in options.only:
                        continue
                    full = f"{prefix}{name}-{look.name}"
                    shown = DOCUMENTED / f"{full}.png" if options.documented and full in SHOWN else None
                    picture(browser, service, path, look, options.folder / f"{full}.png", shown)
                    written += 1
    print(f"{written} screenshots in {options.folder}", file=sys.stderr)
    return 0


@contextmanager
def dashboard(*, filled: bool) -> Iterator[tuple[Service, Browser, Mapping[str, str]]]:
    """A running service with the demonstration's month, or with nothing, a browser, and the pages by name."""
    with tempfile.TemporaryDirectory(prefix="gradassay-screenshots-") as name, sync_playwright() as playwright:
        folder = Path(name)
        with serving(
            folder, uploads=folder, max_upload_bytes=ServiceSettings.model_fields["max_upload_bytes"].default
        ) as service:
            with service.parts.database.write() as session:
                session.execute(delete(TokenRow))
            if filled:
                demonstration.seed(service.parts, folder)
            browser = playwright.chromium.launch(executable_path=EXECUTABLE, args=list(ARGUMENTS))
            yield service, browser, demonstration.pages(service.parts)
            browser.close()


def picture(browser: Browser, service: Service, path: str, look: Look, whole: Path, window: Path | None) -> None:
    """Writes pictures of the whole page, and of one window of it, seen by a person who came by a login link."""
    context = browser.new_context(
        viewport={"width": look.width, "height": look.height},
        color_scheme="dark" if look.scheme == "dark" else "light",
        base_url=service.url,
        reduced_motion="reduce",
    )
    page: Page = context.new_page()
    if path != "/login":
        page.goto(service.parts.logins.link(who="ada", project="default"))
    answer = page.goto(path, wait_until="load")
    if answer is None or answer.status >= 500:
        raise SystemExit(f"{path} answered {answer and answer.status}")
    page.wait_for_function(
        "() => [...document.querySelectorAll('[data-chart]')].every((one) => one.querySelector('canvas'))"
    )
    page.screenshot(path=whole, full_page=True)
    if window is not None:
        window.parent.mkdir(parents=True, exist_ok=True)
        page.screenshot(path=window)
    context.close()


if __name__ == "__main__":
    sys.exit(main())
