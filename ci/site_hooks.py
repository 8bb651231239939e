"""Hooks of mkdocs.yml: files of the checkout that a page links to come along into the site."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

CHECKOUT = Path(__file__).resolve().parents[1]
FOLDER = "checkout"
LINK = re.compile(r"\]\(\.\./([^)#\s]+)\)")


def on_files(files: Files, *, config: MkDocsConfig) -> Files:
    """The files of the site with those that `](../PATH)` names; a PATH that is not there stays a broken link."""
    for page in list(files.documentation_pages()):
        for path in LINK.findall(page.content_string):
            source, target = CHECKOUT / path, f"{FOLDER}/{path}"
            if source.is_file() and files.get_file_from_path(target) is None:
                files.append(File.generated(config, target, abs_src_path=str(source)))
    return files


def on_page_markdown(markdown: str, **_: Any) -> str:
    """The page with these links led into the site."""
    return LINK.sub(lambda link: f"]({FOLDER}/{link[1]})" if (CHECKOUT / link[1]).is_file() else link[0], markdown)
