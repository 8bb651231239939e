"""Addresses of the same page with another filter, sort order or position."""

from __future__ import annotations

from urllib.parse import urlencode

from starlette.datastructures import URL, QueryParams


def address(url: URL, /, **changes: object) -> str:
    """The path and query of `url` with these parameters changed; None and "" take one away."""
    kept = [(name, value) for name, value in QueryParams(url.query).multi_items() if name not in changes and value]
    kept += [(name, str(value)) for name, value in changes.items() if value not in (None, "")]
    return f"{url.path}?{urlencode(kept)}" if kept else url.path
