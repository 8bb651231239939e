"""Calls of a forge's REST API: one try each, answered with a response or with an error that names what to do."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, Self

import httpx2

from gradassay.client.patience import PASSING, Unanswered
from gradassay.goldens.errors import (
    Forbidden,
    GradassayError,
    NotFound,
    ServiceError,
    TooLarge,
    Unauthorised,
    UsageError,
)
from gradassay.goldens.report.printable import printable

CONNECT_S = 10.0
ANSWER_S = 30.0
TOO_LARGE = 413
_SHOWN = 300
_REMAINING = ("x-ratelimit-remaining", "ratelimit-remaining")
_RESET = ("x-ratelimit-reset", "ratelimit-reset")


class Calls:
    """An API on one host. Use it as a context.

    name: of the forge, for messages. address: of the API. headers: with the token, which is sent to this host alone and
    stands in no message. token_hint: what to do where the token is not taken.
    """

    def __init__(self, name: str, address: str, *, token: str, headers: Mapping[str, str], token_hint: str) -> None:
        if not token.isascii() or not token.isprintable() or " " in token:
            raise UsageError(
                f"{name}: the token holds characters that no token has (spaces, line ends?)", hint=token_hint
            )
        self._name = name
        self._token = token
        self._token_hint = token_hint
        self._address = address
        timeout = httpx2.Timeout(connect=CONNECT_S, read=ANSWER_S, write=ANSWER_S, pool=None)
        self._http = httpx2.Client(headers={"User-Agent": "gradassay", **headers}, timeout=timeout)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_raised: object) -> None:
        self._http.close()

    def ask(self, method: str, path: str, *, params: Mapping[str, Any] | None = None, document: Any = None) -> Answered:
        """The answer; path: below the address of the API, or a whole address on the same host (a link to a next page).

        Raises Unanswered for what may pass (with the time that the forge asks to wait), Unauthorised, Forbidden, NotFound,
        TooLarge, ServiceError for all else that is no success.
        """
        try:
            url = httpx2.URL(path if "://" in path else f"{self._address}{path}")
            same = _host(url) == _host(httpx2.URL(self._address))
        except httpx2.InvalidURL as error:
            raise ServiceError(f"{self._name}: {path} is no address ({error})") from error
        if not same:
            raise ServiceError(
                f"{self._name}: a next page is on another host ({url.host})",
                hint=f"the token is sent nowhere but to {self._address}",
            )
        what = f"{self._name}: {method} {url.copy_with(query=None)}"
        try:
            response = self._http.request(method, url, params=params, json=document)
        except httpx2.TransportError as error:
            raise Unanswered.of_failure(error) from error
        except httpx2.DecodingError as error:
            raise ServiceError(f"{what}: the answer cannot be decoded") from error
        if response.is_success:
            return Answered(response, what)
        raise self._error(response, what)

    def _error(self, response: httpx2.Response, what: str) -> GradassayError:
        status = response.status_code
        limited = _limited(response)
        if status in PASSING or limited is not None:
            error = Unanswered.of_answer(response)
            if error.after_s is None:
                error.after_s = limited
            return error
        if response.is_redirect:
            to = httpx2.URL(response.headers.get("location", "")).host or "nowhere"
            return ServiceError(
                f"{what}: answers {status} and points to {to}", hint=f"the token is sent nowhere but to {self._address}"
            )
        message = f"{what}: {status} {self._said(response)}"
        if status == httpx2.codes.UNAUTHORIZED:
            return Unauthorised(message, hint=self._token_hint)
        if status == httpx2.codes.FORBIDDEN:
            return Forbidden(message, hint=self._token_hint)
        if status == httpx2.codes.NOT_FOUND:
            return NotFound(message, hint=self._token_hint)
        return (TooLarge if status == TOO_LARGE else ServiceError)(message)

    def _said(self, response: httpx2.Response) -> str:
        """What the body says, in one line, the token blotted out."""
        text = response.text
        try:
            document = response.json()
        except ValueError:
            document = None
        if isinstance(document, dict) and (message := document.get("message") or document.get("error")):
            text = str(message)
        return printable(text.replace(self._token, "***") if self._token else text)[:_SHOWN].strip()


class Answered:
    """A success. what: the call, for messages."""

    def __init__(self, response: httpx2.Response, what: str) -> None:
        self.headers = response.headers
        self._response = response
        self._what = what

    @property
    def document(self) -> Any:
        """Its JSON; raises ServiceError where it holds none."""
        try:
            return self._response.json()
        except ValueError as error:
            raise ServiceError(
                f"{self._what}: answers {self.headers.get('content-type', 'nothing')!r} instead of JSON",
                hint="a proxy before the API must let this pass",
            ) from error

    @property
    def next_link(self) -> str | None:
        """Where the next page is, by the Link header."""
        link = self._response.links.get("next", {}).get("url")
        return str(self._response.url.join(link)) if link else None


def _host(url: httpx2.URL) -> tuple[str, str, int | None]:
    return (url.scheme, url.host, url.port)


def _limited(response: httpx2.Response) -> float | None:
    """Seconds to wait where the answer says that the rate limit is used up; None where it says no such thing."""
    if response.status_code not in (httpx2.codes.FORBIDDEN, httpx2.codes.TOO_MANY_REQUESTS):
        return None
    after = response.headers.get("retry-after", "")
    if after.isdecimal():
        return float(after)
    if not any(response.headers.get(name) == "0" for name in _REMAINING):
        return None
    reset = next((response.headers[name] for name in _RESET if response.headers.get(name, "").isdecimal()), "")
    return max(1.0, int(reset) - time.time()) if reset else 60.0
