"""Static files by content: a URL names the bytes behind it, so that browsers keep them for good."""

from __future__ import annotations

import hashlib
import mimetypes
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable

from fastapi import APIRouter
from fastapi.responses import Response

from gradassay.goldens.errors import NotFound

PREFIX = "/static"
SHARED = ("heatmap.css",)
"""Files of the reports that pages use as well."""
router = APIRouter(prefix=PREFIX, include_in_schema=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class StaticFile:
    """One file and the URL that it is served by."""

    url: str
    content: bytes
    media_type: str


@cache
def static_files() -> dict[str, StaticFile]:
    """Every static file by its name, as in `vendor/htmx.js`."""
    templates = files("gradassay.goldens.report").joinpath("templates")
    found = _walk(files("gradassay.api.web").joinpath("static"))
    found += [(name, templates.joinpath(name).read_bytes()) for name in SHARED]
    return {name: _static(name, content) for name, content in found}


def static_url(name: str) -> str:
    """The URL of a static file; KeyError where there is none of this name."""
    return static_files()[name].url


@router.get("/{name:path}")
def get_static(name: str) -> Response:
    """The file of this name and content."""
    for file in static_files().values():
        if file.url == f"{PREFIX}/{name}":
            headers = {"Cache-Control": "public, max-age=31536000, immutable", "X-Content-Type-Options": "nosniff"}
            return Response(file.content, media_type=file.media_type, headers=headers)
    raise NotFound(f"{PREFIX}/{name}: no such file", hint="it may be of another release: load the page again")


def _static(name: str, content: bytes) -> StaticFile:
    stem, dot, suffix = name.rpartition(".")
    digest = hashlib.sha256(content).hexdigest()[:12]
    media_type = mimetypes.guess_type(name)[0] or "application/octet-stream"
    return StaticFile(url=f"{PREFIX}/{stem}.{digest}{dot}{suffix}", content=content, media_type=media_type)


def _walk(folder: Traversable, prefix: str = "") -> list[tuple[str, bytes]]:
    found: list[tuple[str, bytes]] = []
    for entry in sorted(folder.iterdir(), key=lambda entry: entry.name):
        if entry.is_dir():
            found += _walk(entry, f"{prefix}{entry.name}/")
        else:
            found.append((f"{prefix}{entry.name}", entry.read_bytes()))
    return found
