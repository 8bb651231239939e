"""From an answer that is a failure to the error that it stands for."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from gradassay.goldens.errors import (
    Conflict,
    Forbidden,
    GradassayError,
    MissingExtra,
    NotFound,
    ServiceError,
    TooLarge,
    Unauthorised,
)
from gradassay.goldens.report.printable import printable

BY_STATUS: Mapping[int, type[GradassayError]] = {
    401: Unauthorised,
    403: Forbidden,
    404: NotFound,
    409: Conflict,
    413: TooLarge,
}
_SHOWN = 200


def error_of(status: int, body: bytes, what: str) -> GradassayError:
    """The error of an answer to `what` ("POST http://..."): by the code of its problem document, else by its status.

    A failure of the service itself (5xx) is a ServiceError whatever its code: the caller did nothing wrong.
    """
    document = _document(body)
    code = document.get("code", "")
    if not isinstance(code, str) or "detail" not in document:
        text = printable(body[:_SHOWN].decode(errors="replace")).strip() or "nothing"
        return BY_STATUS.get(status, ServiceError)(
            f"{what}: {status}, and no problem document of gradassay but {text!r}",
            hint="check --url: it must be the address of the service itself, and a proxy before it must let this pass",
            status=status,
        )
    message, hint = printable(str(document["detail"])), str(document.get("hint", ""))
    facts = document.get("facts")
    known = facts if isinstance(facts, dict) else {}
    if status >= 500:
        request = printable(str(document.get("request_id", "")))
        named = f" (request {request})" if request else ""
        return ServiceError(f"{what}: the service failed: {message}{named}", hint=hint, status=status, reported=code)
    error = _classes().get(code, BY_STATUS.get(status, ServiceError))(message, hint=hint)
    error.facts.update(known)
    return error


def _document(body: bytes) -> dict[str, Any]:
    try:
        document = json.loads(body)
    except (ValueError, RecursionError):
        return {}
    return document if isinstance(document, dict) else {}


def _classes() -> dict[str, type[GradassayError]]:
    return {kind.code: kind for kind in _below(GradassayError) if kind is not MissingExtra}


def _below(kind: type[GradassayError]) -> Iterator[type[GradassayError]]:
    for child in kind.__subclasses__():
        yield child
        yield from _below(child)
