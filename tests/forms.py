"""Forms of the dashboard, filled in without a browser."""

from __future__ import annotations

import re
from urllib.parse import urlencode

import httpx2


def submit(client: httpx2.Client, page: str, action: str, /, **fields: object) -> httpx2.Response:
    """The answer to a form of `page` that is sent to `action`, with that page's CSRF token; lists are sent item by item."""
    token = re.search(r'name="csrf" value="([^"]+)"', client.get(page).text)
    assert token is not None, f"{page} has no form"
    body = urlencode({"csrf": token[1], **fields}, doseq=True)
    headers = {"Origin": str(client.base_url).rstrip("/"), "Content-Type": "application/x-www-form-urlencoded"}
    return client.post(action, content=body, headers=headers)
