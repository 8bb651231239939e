"""Calls of the service: retried where that is safe, answered with JSON or a file, failing with gradassay's own errors."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import quote, urlsplit

import httpx2
import stamina
import stamina.instrumentation

from gradassay.client.patience import PASSING, Patience, Unanswered
from gradassay.client.problems import error_of
from gradassay.goldens.errors import InvalidFile, ServiceError, Unauthorised, UsageError

if TYPE_CHECKING:
    from stamina.instrumentation import RetryDetails, RetryHook

PIECE = 1 << 18
CONNECT_S = 10.0
WRITE_S = 60.0
ANSWER_S = 120.0
"""Longest silence of the service: it checks and stores a whole file before it answers."""
BASE = "/api/v1"

Content = Callable[[], Iterator[bytes]]


class ServiceClient:
    """One service. Safe to use from several threads; close it, or use it as a context.

    url: its address, without a path of the API. token: sent as a bearer token, in no message. retry_s: how long a
    service that does not answer is tried again. say: told about every further try.
    """

    def __init__(
        self, url: str, *, token: str = "", retry_s: float = 60.0, say: Callable[[str], None] = lambda _text: None
    ) -> None:
        self.url = _checked_url(url)
        self.retry_s = retry_s
        self.has_token = False
        headers = {"User-Agent": "gradassay", "Accept": "application/json"}
        timeout = httpx2.Timeout(connect=CONNECT_S, read=ANSWER_S, write=WRITE_S, pool=None)
        self._http = httpx2.Client(headers=headers, timeout=timeout)
        if token:
            self.use_token(token)
        stamina.instrumentation.set_on_retry_hooks([_announcing(say)])

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_raised: object) -> None:
        self.close()

    def close(self) -> None:
        """Closes all connections."""
        self._http.close()

    def use_token(self, token: str) -> None:
        """Sends this token along from now on."""
        self._http.headers["Authorization"] = f"Bearer {_checked_token(token)}"
        self.has_token = True

    def get(self, path: str, **params: str | int | float | None) -> Any:
        """The JSON at `path` below /api/v1; parameters that are None are left out."""
        return self.ask("GET", path, params=params)

    def ask(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, str | int | float | None] | None = None,
        document: Any = None,
        repeatable: bool = True,
        answer_s: float = ANSWER_S,
        retry_s: float | None = None,
    ) -> Any:
        """The JSON that a call answers with; document: its JSON body. retry_s: less than the client's own, for this call.

        repeatable: whether it may be sent again although it may have been obeyed. Raises Unreachable after the last try,
        the error of the problem document where there is one, ServiceError for what is no answer of gradassay.
        """
        response = self._retried(
            method,
            path,
            lambda: self._http.request(
                method,
                self._address(path),
                params={key: value for key, value in (params or {}).items() if value is not None},
                json=document,
                timeout=httpx2.Timeout(connect=CONNECT_S, read=answer_s, write=WRITE_S, pool=None),
            ),
            repeatable=repeatable,
            retry_s=retry_s,
        )
        return _json(response)

    def send_file(self, path: str, file: Path, digest: str, **params: str | None) -> tuple[Any, bool]:
        """The JSON that POST of the file answers with, and whether it was new (201).

        digest: `sha256:` and hexadecimal digits, sent along and checked by the service. Raises InvalidFile where the file
        is no longer as long as it was.
        """
        chosen = {key: value for key, value in params.items() if value is not None}
        content = base64.b64encode(bytes.fromhex(digest.removeprefix("sha256:"))).decode()

        def send() -> httpx2.Response:
            try:
                headers = {
                    "Content-Type": "application/octet-stream",
                    "Content-Length": str(file.stat().st_size),
                    "Content-Digest": f"sha-256=:{content}:",
                }
                return self._http.post(self._address(path), content=_pieces(file), headers=headers, params=chosen)
            except (httpx2.LocalProtocolError, OSError) as error:
                raise InvalidFile(
                    f"{file}: changed while it was sent ({error})",
                    hint="wait until whatever writes it is done",
                    path=str(file),
                ) from error

        response = self._retried("POST", path, send, repeatable=True)
        return _json(response), response.status_code == httpx2.codes.CREATED

    def fetch(self, path: str, target: Path) -> str:
        """The digest of the file at `path` below /api/v1, once it has been written to `target`."""
        digest = hashlib.sha256()

        def receive() -> httpx2.Response:
            nonlocal digest
            digest = hashlib.sha256()
            with self._http.stream("GET", self._address(path), headers={"Accept": "*/*"}) as response:
                if not response.is_success:
                    response.read()
                    return response
                with target.open("wb") as file:
                    for piece in response.iter_bytes(PIECE):
                        digest.update(piece)
                        file.write(piece)
                return response

        self._retried("GET", path, receive, repeatable=True)
        return f"sha256:{digest.hexdigest()}"

    def _address(self, path: str) -> str:
        return f"{self.url}{BASE}{path}"

    def _retried(
        self,
        method: str,
        path: str,
        call: Callable[[], httpx2.Response],
        *,
        repeatable: bool,
        retry_s: float | None = None,
    ) -> httpx2.Response:
        what = f"{method} {self._address(path)}"
        patience = Patience(min(self.retry_s, self.retry_s if retry_s is None else retry_s), repeatable=repeatable)
        try:
            for attempt in stamina.retry_context(
                on=patience, attempts=None, timeout=None, wait_initial=0.25, wait_max=8.0, wait_jitter=0.5
            ):
                with attempt:
                    return self._once(call, what)
        except Unanswered as error:
            raise patience.given_up(error, what) from error
        raise AssertionError("a call ends with an answer or an error")

    def _once(self, call: Callable[[], httpx2.Response], what: str) -> httpx2.Response:
        with _connection_failures(what):
            response = call()
        if response.is_success:
            return response
        if response.status_code in PASSING:
            raise Unanswered.of_answer(response)
        if response.is_redirect:
            raise ServiceError(
                f"{what}: answers {response.status_code} and points to {response.headers.get('location', 'nowhere')!r}",
                hint="a token is sent nowhere but to --url: correct it, https where the service wants that",
            )
        error = error_of(response.status_code, response.content, what)
        if isinstance(error, Unauthorised):
            todo = "put a valid one into" if self.has_token else "set"
            error.hint = f"{todo} GRADASSAY_TOKEN; gradassay token create, on the service's machine, makes a token"
        raise error


@contextmanager
def _connection_failures(what: str) -> Iterator[None]:
    try:
        yield
    except httpx2.TransportError as error:
        raise Unanswered.of_failure(error) from error
    except httpx2.DecodingError as error:
        raise ServiceError(f"{what}: the answer cannot be decoded ({error})") from error


def segment(text: str) -> str:
    """The text as one segment of a path."""
    return quote(text, safe="")


def _json(response: httpx2.Response) -> Any:
    try:
        return response.json()
    except ValueError as error:
        kind = response.headers.get("content-type", "nothing")
        raise ServiceError(
            f"{response.request.method} {response.url.copy_with(query=None)}: answers {kind!r} instead of JSON",
            hint="check --url: it must be the address of the service itself",
        ) from error


def _pieces(file: Path) -> Iterator[bytes]:
    with file.open("rb") as opened:
        while piece := opened.read(PIECE):
            yield piece


def _announcing(say: Callable[[str], None]) -> RetryHook:
    def announce(details: RetryDetails) -> None:
        say(f"the service does not answer ({details.caused_by}); trying again in {details.wait_for:.1f} s")

    return announce


def _checked_url(url: str) -> str:
    try:
        parts = urlsplit(url)
        known = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:
        known = False
    if not known:
        raise UsageError("--url is no address of a service", hint="write http://HOST:PORT or https://HOST")
    if "@" in parts.netloc or parts.query or parts.fragment:
        raise UsageError(
            "--url holds more than an address", hint="write https://HOST; a token belongs into GRADASSAY_TOKEN"
        )
    return url.rstrip("/")


def _checked_token(token: str) -> str:
    if not token.isascii() or not token.isprintable() or " " in token:
        raise UsageError(
            "GRADASSAY_TOKEN holds characters that no token has (spaces, line ends, quotes of a shell?)",
            hint="copy it again as the service showed it",
        )
    return token
