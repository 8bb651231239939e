"""Long lists of the service, page after page."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gradassay.client.client import ServiceClient


def every(client: ServiceClient, path: str, *, most: int | None = None, **filters: str | None) -> Iterator[Any]:
    """The items of the list at `path`, as the service orders them; most: not more than this many, None for all."""
    cursor: str | None = None
    count = 0
    while True:
        page = client.ask("GET", path, params={"cursor": cursor, **filters})
        for item in page["items"]:
            if count == most:
                return
            count += 1
            yield item
        cursor = page.get("next")
        if not cursor:
            return
