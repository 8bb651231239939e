"""Whether an address is gradassay's service or something else, such as an MLflow server."""

from __future__ import annotations

import httpx2
import stamina

from gradassay.goldens.errors import Unreachable

ANSWER_S = 10.0
PASSING = (502, 503, 504)


def is_service(url: str, *, retry_s: float = 60.0) -> bool:
    """Whether gradassay's service answers at `url`: its /version is JSON with a release and a format.

    retry_s: how long an address that does not answer is tried again; then Unreachable.
    """
    address = f"{url.rstrip('/')}/version"
    try:
        for attempt in stamina.retry_context(
            on=(httpx2.TransportError, _Passing),
            attempts=None if retry_s else 1,
            timeout=retry_s or None,
            wait_initial=0.25,
            wait_max=8.0,
            wait_jitter=0.5,
        ):
            with attempt:
                return _answers(address)
    except (httpx2.TransportError, _Passing) as error:
        raise Unreachable(
            f"GET {address}: no answer within {retry_s:g} s ({error})",
            hint="check the address, and that what it names is running",
            url=url,
        ) from error
    raise AssertionError("a call ends with an answer or an error")


class _Passing(Exception):
    """An answer that says to try again."""


def _answers(address: str) -> bool:
    response = httpx2.get(address, timeout=ANSWER_S)
    if response.status_code in PASSING:
        raise _Passing(f"status {response.status_code}")
    try:
        answer = response.json()
    except ValueError:
        return False
    return response.is_success and isinstance(answer, dict) and {"version", "format"} <= answer.keys()
