"""A file that arrives as the body of a request: counted, hashed and kept out of sight until it has been checked."""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from fastapi import Request
from starlette.requests import ClientDisconnect

from gradassay.goldens.errors import InvalidFile, TooLarge, UsageError

_SHA_256 = re.compile(r"(?:^|,)\s*sha-256=:([A-Za-z0-9+/]+=*):")


@dataclass(frozen=True, slots=True, kw_only=True)
class Upload:
    """A body that arrived whole. path: a temporary file, gone when the request ends."""

    path: Path
    digest: str


@asynccontextmanager
async def received(request: Request, *, limit: int) -> AsyncIterator[Upload]:
    """The body of the request as a temporary file.

    Raises TooLarge beyond `limit` bytes (before reading, where Content-Length says so), InvalidFile where the client
    goes away early or the content is not that of the header Content-Digest (RFC 9530, sha-256), UsageError for a form
    or a Content-Digest without sha-256.
    """
    expected = _expected_digest(request)
    if request.headers.get("content-type", "").startswith("multipart/"):
        raise UsageError("the body is a multipart form", hint="send the file itself: curl --data-binary @FILE")
    declared = request.headers.get("content-length", "")
    if declared.isdigit() and int(declared) > limit:
        raise _too_large(f"{int(declared)}", limit)
    with tempfile.TemporaryDirectory(prefix="gradassay-upload-") as folder:
        path = Path(folder) / "upload"
        content, size = hashlib.sha256(), 0
        with path.open("wb") as file:
            try:
                async for piece in request.stream():
                    size += len(piece)
                    if size > limit:
                        raise _too_large(f"more than {limit}", limit)
                    content.update(piece)
                    file.write(piece)
            except ClientDisconnect as error:
                raise InvalidFile(
                    f"upload: the client went away after {size} of {declared or 'unknown'} bytes"
                ) from error
        digest = f"sha256:{content.hexdigest()}"
        if expected is not None and digest != expected:
            raise InvalidFile(
                f"upload: Content-Digest says {expected}, the {size} bytes that arrived have {digest}",
                hint="the file was changed or damaged on its way; send it again",
                field="digest",
                expected=expected,
                found=digest,
            )
        yield Upload(path=path, digest=digest)


def _expected_digest(request: Request) -> str | None:
    header = request.headers.get("content-digest")
    if header is None:
        return None
    match = _SHA_256.search(header)
    try:
        value = base64.b64decode(match[1], validate=True) if match else b""
    except binascii.Error:
        value = b""
    if len(value) != hashlib.sha256().digest_size:
        raise UsageError(
            f"Content-Digest {header[:120]!r} holds no sha-256 digest",
            hint="write sha-256=:BASE64: (RFC 9530), or leave the header out",
        )
    return f"sha256:{value.hex()}"


def _too_large(size: str, limit: int) -> TooLarge:
    return TooLarge(
        f"upload: {size} bytes, accepted are at most {limit}",
        hint="record without --full, or let the service accept more (GRADASSAY_MAX_UPLOAD_BYTES)",
        limit=limit,
    )
