"""A checked copy of an incoming file, before it gets a name in a store."""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Generic, TypeVar

from gradassay.goldens.atomic import unwritten
from gradassay.goldens.container import digest_of_file
from gradassay.goldens.errors import InvalidFile, StoreError

Content = TypeVar("Content")
_PIECE = 1 << 20
_PREFIX = ".incoming."
_FOLDER_PREFIX = "gradassay-staging-"


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
    held: int | None = None
    try:
        folder.mkdir(parents=True, exist_ok=True)
        held, temporary = _locked_temporary(folder)
        digest = _copy(source, temporary)
        if digest != before:
            raise InvalidFile(
                f"{source}: changed while it was read, from {before} to {digest}",
                hint="wait until whatever writes it is done",
                path=str(source),
            )
        yield Staged(path=temporary, digest=digest, content=content)
    except OSError as error:
        what = f"{folder}: a copy of {source}"
        raise unwritten(error, what, hint="check free space and permissions; nothing was stored") from error
    finally:
        if temporary is not None:
            temporary.unlink(missing_ok=True)
        if held is not None:
            os.close(held)


def remove_abandoned(folder: Path) -> int:
    """How many temporary files it removed from `folder`: those whose writer died before it gave them a name."""
    return sum(_remove_unlocked(path) for path in folder.glob(f"{_PREFIX}*"))


@contextmanager
def staging_folder() -> Iterator[Path]:
    """A temporary folder to stage in, for stores that are in no folder of this machine."""
    with tempfile.TemporaryDirectory(prefix=_FOLDER_PREFIX) as folder:
        yield Path(folder)


def remove_abandoned_folders() -> int:
    """How many files it removed from staging folders whose writer died."""
    removed = 0
    for folder in Path(tempfile.gettempdir()).glob(f"{_FOLDER_PREFIX}*"):
        found = [path for path in folder.rglob("*") if path.is_file()]
        if found and all(_remove_unlocked(path) for path in found):
            shutil.rmtree(folder, ignore_errors=True)
            removed += len(found)
    return removed


def _remove_unlocked(path: Path) -> bool:
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        path.unlink(missing_ok=True)
    except OSError:
        return False
    finally:
        os.close(descriptor)
    return True


def _locked_temporary(folder: Path) -> tuple[int, Path]:
    """A new temporary file, locked for as long as the descriptor is open, which says that somebody writes it."""
    while True:
        descriptor, name = tempfile.mkstemp(dir=folder, prefix=_PREFIX, suffix=".safetensors")
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        if os.fstat(descriptor).st_nlink:
            return descriptor, Path(name)
        os.close(descriptor)


def _copy(source: Path, path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("wb") as target, source.open("rb") as file:
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
