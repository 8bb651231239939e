"""A file that arrives as the body of a request: counted, hashed and kept out of sight until it has been checked."""

from __future__ import annotations

import base64
import binascii
import hashlib
import os
import re
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from fastapi import Request
from fastapi.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect

from gradassay.api.operations.bounded import let_through
from gradassay.goldens.atomic import unwritten
from gradassay.goldens.container import header_bytes
from gradassay.goldens.errors import GradassayError, InvalidFile, TooLarge, UsageError

UPLOAD = "upload"
"""What messages call the file: its temporary name means nothing to the client."""
_SHA_256 = re.compile(r"(?:^|,)\s*sha-256=:([A-Za-z0-9+/]+=*):")
_PREFIX = 8
_AT_ONCE = 1 << 20
_LONGEST_MESSAGE = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Upload:
    """A body that arrived whole. path: a file without a name in any folder, gone with the request and with the process."""

    path: Path
    digest: str
    size: int


@asynccontextmanager
async def received(request: Request, *, limit: int) -> AsyncIterator[Upload]:
    """The body of the request as a temporary file.

    Raises TooLarge beyond `limit` bytes (before reading, where Content-Length says so), InvalidFile where the client
    goes away early, the first bytes are those of no safetensors file or the content is not that of the header
    Content-Digest (RFC 9530, sha-256), UsageError for a form or a Content-Digest without sha-256, StorageFull where
    there is no space. Errors raised inside that name the file call it `upload`.
    """
    let_through(request)
    expected = _expected_digest(request)
    if request.headers.get("content-type", "").lower().startswith(("multipart/", "application/x-www-form-urlencoded")):
        raise UsageError(
            "the body is a form",
            hint="send the file itself: curl --data-binary @FILE -H 'Content-Type: application/octet-stream'",
        )
    declared = request.headers.get("content-length", "")
    if declared.isdigit() and len(declared) < 20 and int(declared) <= limit:
        most = int(declared)
    elif declared:
        raise _too_large(declared[:40], limit)
    else:
        most = limit
    with _nameless() as file:
        path = Path(f"/proc/self/fd/{file.fileno()}")
        with calling_it_upload(path):
            digest = await _receive(request, file, path, limit=limit, most=most, declared=declared)
            if expected is not None and digest != expected:
                raise InvalidFile(
                    f"{UPLOAD}: Content-Digest says {expected}, what arrived has {digest}",
                    hint="the file was changed or damaged on its way; send it again",
                    field="digest",
                    expected=expected,
                    found=digest,
                )
            yield Upload(path=path, digest=digest, size=os.fstat(file.fileno()).st_size)


async def _receive(request: Request, file: IO[bytes], path: Path, *, limit: int, most: int, declared: str) -> str:
    """The digest of the whole body, which is in the file then.

    A body that begins like nothing that is ever kept is read to its end, and refused there: a client that is still
    sending would not see the reason.
    """
    content, size, prefix, waiting = hashlib.sha256(), 0, b"", bytearray()
    refused: InvalidFile | None = None

    async def write() -> None:
        await run_in_threadpool(_append, file, bytes(waiting), content)
        waiting.clear()

    try:
        async for piece in request.stream():
            size += len(piece)
            if size > limit:
                raise _too_large(f"more than {limit}", limit)
            if len(prefix) < _PREFIX:
                prefix = (prefix + piece)[:_PREFIX]
                refused = _refused(prefix, path, most)
            if refused:
                continue
            waiting += piece
            if len(waiting) >= _AT_ONCE:
                await write()
        if refused:
            raise refused
        await write()
        return f"sha256:{content.hexdigest()}"
    except ClientDisconnect as error:
        raise InvalidFile(f"{UPLOAD}: the client went away after {size} of {declared or 'unknown'} bytes") from error
    except OSError as error:
        raise unwritten(error, UPLOAD, hint="the service needs space; nothing was kept, so try again later") from error


def _refused(prefix: bytes, path: Path, most: int) -> InvalidFile | None:
    """Why a file of at most this many bytes that begins like this is refused, as far as its first 8 bytes say."""
    if len(prefix) < _PREFIX:
        return None
    try:
        header_bytes(path, prefix, most)
    except InvalidFile as error:
        return error
    return None


@contextmanager
def calling_it_upload(path: Path) -> Iterator[None]:
    """Errors about the file at `path` leave with the name that means something to the client, and no longer than that."""
    try:
        yield
    except GradassayError as error:
        error.message = error.message.replace(str(path), UPLOAD)[:_LONGEST_MESSAGE]
        error.facts = {name: value for name, value in error.facts.items() if value != str(path)}
        for name, value in error.facts.items():
            if isinstance(value, str):
                error.facts[name] = value.replace(str(path), UPLOAD)[:_LONGEST_MESSAGE]
        raise


@contextmanager
def _nameless() -> Iterator[IO[bytes]]:
    """A file that no folder lists, so that a process which dies leaves nothing to clean up."""
    with ExitStack() as stack:
        try:
            file = stack.enter_context(tempfile.TemporaryFile(prefix="gradassay-upload-", buffering=0))
        except OSError as error:
            raise unwritten(error, UPLOAD, hint="the service needs a temporary folder that it can write") from error
        yield file


def _append(file: IO[bytes], piece: bytes, content: hashlib._Hash) -> None:
    content.update(piece)
    left = memoryview(piece)
    while left:
        left = left[file.write(left) :]


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
        f"{UPLOAD}: {size} bytes, accepted are at most {limit}",
        hint="record without --full, or let the service accept more (GRADASSAY_MAX_UPLOAD_BYTES)",
        limit=limit,
    )
