"""When a call is tried again: failures that may pass, for a limited time, and never one that may have been obeyed."""

from __future__ import annotations

import ssl
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

import httpx2

from gradassay.goldens.errors import Unreachable

PASSING = (429, 502, 503, 504)
"""Statuses after which the same call may succeed."""
NOT_OBEYED = (429, 503)
"""Those of them that say that nothing was done."""
_NOT_SENT = (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout, httpx2.ProxyError)


class Unanswered(Unreachable):
    """One try without an answer. obeyed: whether the service may have done it all the same. after_s: asked to wait."""

    def __init__(self, message: str, *, obeyed: bool, after_s: float | None = None, passes: bool = True) -> None:
        super().__init__(message)
        self.obeyed = obeyed
        self.after_s = after_s
        self.passes = passes

    @classmethod
    def of_failure(cls, error: httpx2.TransportError) -> Unanswered:
        """The connection failed; a certificate that cannot be trusted will not be trusted later."""
        untrusted = next((cause for cause in _causes(error) if isinstance(cause, ssl.SSLCertVerificationError)), None)
        reason = str(untrusted or error) or type(error).__name__
        return cls(reason, obeyed=not isinstance(error, _NOT_SENT), passes=untrusted is None)

    @classmethod
    def of_answer(cls, response: httpx2.Response) -> Unanswered:
        """The answer was one of PASSING."""
        status = response.status_code
        return cls(
            f"it answers {status} {response.reason_phrase}".rstrip(),
            obeyed=status not in NOT_OBEYED,
            after_s=_retry_after(response.headers.get("retry-after", "")),
        )


class Patience:
    """Decides after every failed try whether to go on; an instance is for one call and satisfies stamina's backoff hook.

    limit_s counts from the first failure, so that a long upload that fails at its end is tried again as well.
    repeatable: whether doing it twice is the same as doing it once.
    """

    def __init__(self, limit_s: float, *, repeatable: bool) -> None:
        self.tries = 0
        self._limit_s = limit_s
        self._repeatable = repeatable
        self._first: float | None = None

    def __call__(self, error: Exception) -> bool | float:
        """False to give up, True to wait as usual, or the seconds to wait."""
        if not isinstance(error, Unanswered):
            return False
        self.tries += 1
        now = time.monotonic()
        self._first = now if self._first is None else self._first
        left_s = self._limit_s - (now - self._first)
        if left_s <= 0 or not error.passes or (error.obeyed and not self._repeatable):
            return False
        if error.after_s is None:
            return True
        return error.after_s if error.after_s <= left_s else False

    def given_up(self, error: Unanswered, what: str) -> Unreachable:
        """What to tell who asked for `what` ("POST http://...")."""
        times = "once" if self.tries == 1 else f"{self.tries} times"
        hint = "see whether it runs (gradassay doctor --url ADDRESS) and try again; GRADASSAY_RETRY_S allows more time"
        if error.obeyed and not self._repeatable:
            hint = "it may have been done all the same: look before you repeat it (gradassay golden show)"
        elif error.after_s is not None:
            hint = f"it asks to wait {error.after_s:.0f} s; GRADASSAY_RETRY_S = {self._limit_s:g} allows no more"
        elif not error.passes:
            hint = "name the certificate of whoever signed it in SSL_CERT_FILE"
        return Unreachable(f"{what}: no answer, tried {times}: {error.message}", hint=hint, tries=self.tries)


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def _retry_after(value: str) -> float | None:
    """Seconds, whether the header says seconds or a date; None where it says neither."""
    if value.strip().isdigit():
        return float(value)
    try:
        return max(0.0, (parsedate_to_datetime(value) - datetime.now(UTC)).total_seconds())
    except (ValueError, TypeError):
        return None
