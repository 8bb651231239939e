"""The pages make a site: every link leads somewhere, and nothing is fetched from another host."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from wheelhouse import CHECKOUT

LOADED = re.compile(r"""<(?:script|img|iframe|source)[^>]*\ssrc=["']?(https?:)?//|<link[^>]*\shref=["']?(https?:)?//""")
STYLED = re.compile(r"""(?:@import|url\()\s*["']?(https?:)?//""")


def build(configuration: Path, site: Path) -> subprocess.CompletedProcess[str]:
    """Builds the site as `make docs` does."""
    return subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--config-file", configuration, "--site-dir", site],
        cwd=CHECKOUT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    done = build(CHECKOUT / "mkdocs.yml", folder)
    assert done.returncode == 0, done.stderr
    return folder


def pages(nav: list[object]) -> list[str]:
    """The files of the navigation, in its order."""
    found: list[str] = []
    for entry in nav:
        assert isinstance(entry, dict)
        for target in entry.values():
            found += pages(target) if isinstance(target, list) else [target]
    return found


def test_every_page_is_in_the_site_and_in_the_navigation(site: Path) -> None:
    documents = {path.name for path in (CHECKOUT / "docs").glob("*.md")}
    navigation = yaml.safe_load((CHECKOUT / "mkdocs.yml").read_text())["nav"]

    assert sorted(pages(navigation)) == sorted(documents)
    assert {name.replace(".md", ".html") for name in documents} <= {path.name for path in site.glob("*.html")}


def test_nothing_is_loaded_from_another_host(site: Path) -> None:
    for path in [*site.rglob("*.html"), *site.rglob("*.css")]:
        text = path.read_text(encoding="utf-8")
        assert not LOADED.search(text), path
        assert not STYLED.search(text), path


def test_what_is_loaded_from_elsewhere_would_be_found() -> None:
    assert LOADED.search('<script async src="https://example.org/a.js"></script>')
    assert LOADED.search('<link rel="stylesheet" href="//example.org/a.css">')
    assert STYLED.search("@import 'https://example.org/a.css'")
    assert not LOADED.search('<a href="https://example.org">')


def test_files_of_the_checkout_come_along(site: Path) -> None:
    text = (site / "faults.html").read_text(encoding="utf-8")
    linked = re.findall(r'href="(checkout/[^"]+)"', text)

    assert linked
    assert all((site / path).read_bytes() == (CHECKOUT / path.partition("/")[2]).read_bytes() for path in linked)


@pytest.mark.parametrize(
    "broken", ["[x](nowhere.md)", "[x](cli.md#nowhere)", "[x](../ci/nowhere.py)", "![x](nowhere.png)"]
)
def test_a_link_that_leads_nowhere_fails(broken: str, tmp_path: Path) -> None:
    docs = tmp_path / "docs"
    docs.mkdir()
    (docs / "index.md").write_text(f"# Page\n\n{broken}\n")
    (docs / "cli.md").write_text("# Other\n")
    configuration = yaml.safe_load((CHECKOUT / "mkdocs.yml").read_text())
    configuration |= {
        "docs_dir": str(docs),
        "nav": ["index.md", "cli.md"],
        "hooks": [str(CHECKOUT / "ci" / "site_hooks.py")],
    }
    (tmp_path / "mkdocs.yml").write_text(yaml.safe_dump(configuration))

    done = build(tmp_path / "mkdocs.yml", tmp_path / "site")
    assert done.returncode == 1, done.stderr
    assert "nowhere" in done.stderr


def test_the_readme_lists_every_page() -> None:
    readme = (CHECKOUT / "README.md").read_text()
    missing = [
        path.name for path in (CHECKOUT / "docs").glob("*.md") if path.name not in readme and path.stem != "index"
    ]

    assert missing == []
