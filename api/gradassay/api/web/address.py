"""Addresses of pages, and of the same page with another filter, sort order or position."""

from __future__ import annotations

from urllib.parse import urlencode

from starlette.datastructures import URL, QueryParams


def link(path: str, **parameters: object) -> str:
    """The path with these parameters, without those that are None or ""."""
    kept = [(name, str(value)) for name, value in parameters.items() if value not in (None, "")]
    return f"{path}?{urlencode(kept)}" if kept else path


def address(url: URL, /, **changes: object) -> str:
    """The path and query of `url` with these parameters changed; None and "" take one away."""
    kept = [(name, value) for name, value in QueryParams(url.query).multi_items() if name not in changes and value]
    kept += [(name, str(value)) for name, value in changes.items() if value not in (None, "")]
    return f"{url.path}?{urlencode(kept)}" if kept else url.path
