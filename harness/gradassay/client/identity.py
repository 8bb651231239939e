"""The identity that a CI system signs for a job, exchanged for a token of the service when one is needed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING
from urllib.parse import urlencode

import httpx2
import stamina

from gradassay.client.settings import ClientSettings
from gradassay.goldens.errors import Unauthorised, Unreachable

if TYPE_CHECKING:
    from gradassay.client.client import ServiceClient

ANSWER_S = 30.0


def authorise(client: ServiceClient, environ: Mapping[str, str]) -> bool:
    """Whether the client has got a token for the identity of this job; one that has a token keeps it.

    Such a token lasts minutes: it is asked for when everything is ready to be sent. Raises Unauthorised where there is no
    identity although the job may ask for one, or the service does not take it; Unreachable where nobody answers.
    """
    if client.has_token:
        return False
    settings = ClientSettings.load()
    identity = settings.id_token.get_secret_value() or _of_github(environ, settings)
    if not identity:
        return False
    client.use_token(client.ask("POST", "/tokens/exchange", document={"token": identity})["token"])
    return True


class _Passing(Exception):
    """An answer that says to try again."""


def _of_github(environ: Mapping[str, str], settings: ClientSettings) -> str:
    """What GitHub signs for a job with the permission `id-token: write`; empty elsewhere."""
    url, secret = (environ.get(f"ACTIONS_ID_TOKEN_REQUEST_{part}", "") for part in ("URL", "TOKEN"))
    if not url or not secret:
        return ""
    try:
        for attempt in stamina.retry_context(
            on=(httpx2.TransportError, _Passing),
            attempts=None if settings.retry_s else 1,
            timeout=settings.retry_s or None,
            wait_initial=0.25,
            wait_max=8.0,
        ):
            with attempt:
                return _asked(f"{url}&{urlencode({'audience': settings.audience})}", secret)
    except (httpx2.TransportError, _Passing) as error:
        raise Unreachable(
            f"GitHub gives no identity for this job: {error}", hint="repeat the job, or set GRADASSAY_TOKEN"
        ) from error
    raise AssertionError("a call ends with an answer or an error")


def _asked(url: str, secret: str) -> str:
    response = httpx2.get(url, headers={"Authorization": f"Bearer {secret}"}, timeout=ANSWER_S)
    if response.status_code == httpx2.codes.TOO_MANY_REQUESTS or response.is_server_error:
        raise _Passing(f"it answers {response.status_code}")
    try:
        return str(response.json()["value"])
    except (ValueError, KeyError, TypeError) as error:
        raise Unauthorised(
            f"GitHub gives no identity for this job: it answers {response.status_code}",
            hint="give the job the permission id-token: write, or set GRADASSAY_TOKEN",
        ) from error
