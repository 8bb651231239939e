"""What stands under `## Start` of every face's page works as it is, typed into an empty folder with the package installed.

In order: a block with a title is a file, a block of sh is run. A last line that ends in `# exit N` says how it ends;
`export NAME=...` is left out where the reader has a value of their own; `gradassay serve` runs until the page is done.
"""

from __future__ import annotations

import re
import signal
import socket
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx2
import pytest
from markdown_it import MarkdownIt

from wheelhouse import CHECKOUT, TIMEOUT_S, Home

DOCS = CHECKOUT / "docs"
SERVE = "gradassay serve"
SLOW = (pytest.mark.slow, pytest.mark.timeout(1200))
pytestmark = [pytest.mark.wheel, pytest.mark.dist]


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """One fenced block. title: the file that it is, or empty."""

    language: str
    title: str
    text: str


def start_of(document: str) -> list[Block]:
    """The blocks between the heading Start and the next one."""
    blocks, within = [], False
    tokens = MarkdownIt("commonmark").parse(document)
    for token, following in zip(tokens, [*tokens[1:], None], strict=True):
        if token.type == "heading_open" and token.tag in ("h1", "h2"):
            within = following is not None and following.content == "Start"
        elif token.type == "fence" and within:
            language, _, rest = token.info.strip().partition(" ")
            title = re.search(r'title="([^"]+)"', rest)
            blocks.append(Block(language=language, title=title[1] if title else "", text=token.content))
    return blocks


def ends_with(script: str) -> int:
    """The exit code that the last line announces, else 0."""
    announced = re.search(r"# exit (\d+)\b", script.rstrip().splitlines()[-1])
    return int(announced[1]) if announced else 0


def follow(blocks: list[Block], home: Home, folder: Path, settings: Mapping[str, str]) -> None:
    """Does what the blocks say; raises AssertionError with what was printed where one ends otherwise."""
    with ExitStack() as running:
        for block in blocks:
            if block.title:
                file = folder / block.title
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_text(block.text)
                continue
            assert block.language == "sh", f"neither a file nor commands: {block}"
            lines = [line for line in block.text.splitlines() if not _is_set(line, settings)]
            if SERVE in lines:
                lines.remove(SERVE)
                running.enter_context(serving(home, folder, settings))
            done = subprocess.run(
                ["bash", "-euo", "pipefail", "-c", "\n".join(lines)],
                cwd=folder,
                env=home.variables(**settings),
                capture_output=True,
                text=True,
                timeout=TIMEOUT_S,
                check=False,
            )
            assert done.returncode == ends_with(block.text), f"{block.text}\n{done.stdout}\n{done.stderr}"
            assert "Traceback" not in done.stderr


def _is_set(line: str, settings: Mapping[str, str]) -> bool:
    exported = re.match(r"export (\w+)=", line)
    return exported is not None and exported[1] in settings


@contextmanager
def serving(home: Home, folder: Path, settings: Mapping[str, str]) -> Iterator[None]:
    """`gradassay serve` in the folder; the link that it prints signs in."""
    process = subprocess.Popen(
        [home.folder / "bin" / "gradassay", "serve"],
        cwd=folder,
        env={key: value for key, value in home.variables(**settings).items() if key != "GRADASSAY_URL"},
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    try:
        link = next(found[0] for line in process.stdout if (found := re.search(r"http://\S+/login\S+", line)))
        with httpx2.Client(follow_redirects=True, timeout=60) as browser:
            page = browser.get(link, headers={"Accept": "text/html"})
        assert page.status_code == 200
        assert "Inbox" in page.text
        yield
    finally:
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=60) == 0


def free_port() -> int:
    """A port that nothing listens on now."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        port: int = listening.getsockname()[1]
        return port


@pytest.mark.parametrize("page", [pytest.param(page, marks=SLOW) for page in ("library", "cli", "ci", "pytest")])
def test_a_start_with_torch_alone(page: str, training: Home, tmp_path: Path) -> None:
    follow(start_of((DOCS / f"{page}.md").read_text()), training, tmp_path, {})


@pytest.mark.parametrize(
    "page", [pytest.param(page, marks=SLOW) for page in ("index", "goldens", "dashboard", "service")]
)
def test_a_start_with_mlflow_or_a_service(page: str, everything: Home, tmp_path: Path) -> None:
    port = free_port()
    settings = {"GRADASSAY_PORT": str(port), "GRADASSAY_URL": f"http://127.0.0.1:{port}"}
    follow(
        start_of((DOCS / f"{page}.md").read_text()),
        everything,
        tmp_path,
        settings if page in ("dashboard", "service") else {},
    )


@pytest.mark.parametrize("page", ["index", "cli", "ci", "pytest", "library", "goldens", "dashboard", "service"])
def test_every_face_begins_with_a_start(page: str) -> None:
    document = (DOCS / f"{page}.md").read_text()
    headings = re.findall(r"^## (.*)$", document, re.MULTILINE)

    assert headings[0] == "Start"
    assert [block for block in start_of(document) if block.language == "sh"]
    assert re.search(r"^## Start\n+(?:[^\n#`|][^\n]*\n+){0,4}```", document, re.MULTILINE), "a block comes first"


def test_a_start_that_does_not_work_is_found(training: Home, tmp_path: Path) -> None:
    file = '```toml title="a/b.toml"\nx = 1\n```\n\n'
    page = f"# Face\n\n## Start\n\n{file}```sh\ntest -s a/b.toml\ngrep y a/b.toml  # exit 1\n```\n"
    follow(start_of(page + "\n## More\n\n```sh\nfalse\n```\n"), training, tmp_path, {})

    for wrong in (
        page.replace("exit 1", "exit 2"),
        page.replace("test -s", "gradassay frobnicate"),
        f"{page}\n```\nx\n```\n",
    ):
        with pytest.raises(AssertionError):
            follow(start_of(wrong), training, tmp_path, {})


def test_a_value_of_the_readers_own_is_kept(training: Home, tmp_path: Path) -> None:
    page = '## Start\n\n```sh\nexport ADDRESS=http://example.org\ntest "$ADDRESS" = mine\n```\n'
    follow(start_of(page), training, tmp_path, {"ADDRESS": "mine"})
    with pytest.raises(AssertionError):
        follow(start_of(page), training, tmp_path, {})
