"""Whether a browser sent a request from a page of this service."""

from __future__ import annotations

from urllib.parse import urlsplit

from fastapi import Request

from gradassay.goldens.errors import Forbidden

SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})


def require_same_origin(request: Request) -> None:
    """Raises Forbidden for a request that another site's page makes a browser send.

    Browsers say so themselves (Sec-Fetch-Site), older ones by the Origin alone. The scheme is not compared: behind a
    proxy that ends TLS the service does not see it.
    """
    site = request.headers.get("sec-fetch-site")
    origin = request.headers.get("origin")
    if site is not None:
        same = site in ("same-origin", "none")
    else:
        same = origin is None or urlsplit(origin).netloc == request.headers.get("host")
    if not same:
        raise Forbidden(
            f"{request.method} {request.url.path} was sent by a page of another site ({origin or site})",
            hint="use the service's own pages, or a token",
        )
