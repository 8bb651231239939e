"""A checked copy of an incoming file, before it gets a name in a store."""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Generic, TypeVar

from gradassay.goldens.container import digest_of_file
from gradassay.goldens.errors import InvalidFile, StoreError

Content = TypeVar("Content")
_PIECE = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Staged(Generic[Content]):
    """A validated copy. path: the copy, gone when the context ends unless it was moved. content: what was read."""

    path: Path
    digest: str
    content: Content


@contextmanager
def staged(source: Path, folder: Path, read: Callable[[Path], Content]) -> Iterator[Staged[Content]]:
    """Validates `source` with `read` and copies it to a temporary name in `folder`, synced to disk.

    Raises what `read` raises, InvalidFile where the file changed meanwhile, StoreError where no copy can be written.
    """
    content = read(source)
    before = digest_of_file(source)
    temporary: Path | None = None
    try:
        folder.mkdir(parents=True, exist_ok=True)
        descriptor, name = tempfile.mkstemp(dir=folder, prefix=".incoming.", suffix=".safetensors")
        temporary = Path(name)
        digest = _copy(source, descriptor)
        if digest != before:
            raise InvalidFile(
                f"{source}: changed while it was read, from {before} to {digest}",
                hint="wait until whatever writes it is done",
                path=str(source),
            )
        yield Staged(path=temporary, digest=digest, content=content)
    except OSError as error:
        raise StoreError(
            f"{folder}: a copy of {source} could not be written ({error.strerror or error})",
            hint="check free space and permissions; nothing was stored",
            path=str(source),
        ) from error
    finally:
        if temporary is not None:
            temporary.unlink(missing_ok=True)


def _copy(source: Path, descriptor: int) -> str:
    digest = hashlib.sha256()
    with os.fdopen(descriptor, "wb") as target, source.open("rb") as file:
        while piece := file.read(_PIECE):
            digest.update(piece)
            target.write(piece)
        target.flush()
        os.fchmod(target.fileno(), 0o644)
        os.fsync(target.fileno())
    return f"sha256:{digest.hexdigest()}"


def publish(staged_path: Path, path: Path) -> None:
    """Gives a staged file its name, whole and durable; the folder is synced too."""
    path.parent.mkdir(parents=True, exist_ok=True)
    os.replace(staged_path, path)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def verified(path: Path, expected: str) -> Path:
    """`path`, once its content has been found to have the digest `expected`; raises InvalidFile with both digests."""
    try:
        found = digest_of_file(path)
    except OSError as error:
        raise StoreError(
            f"{path}: a file of the store cannot be read ({error.strerror or error})",
            hint="it was removed or its permissions changed; store it again from its source",
            path=str(path),
        ) from error
    if found != expected:
        raise InvalidFile(
            f"{path}: content has digest {found}, the store's entry says {expected}",
            hint="the file was changed or damaged after it was stored; restore it from a backup or store it again",
            path=str(path),
            field="digest",
            expected=expected,
            found=found,
        )
    return path


def now() -> str:
    """The time in UTC, ISO 8601 to the microsecond."""
    return datetime.now(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
