"""Files that appear whole or not at all."""

from __future__ import annotations

import errno
import os
import tempfile
from pathlib import Path

from gradassay.goldens.errors import StorageFull, StoreError

PARTIAL = ".partial"
"""What the names of files end with that are still being written."""
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def unwritten(error: OSError, what: str, *, hint: str) -> StoreError:
    """The error that says why `what` could not be written: StorageFull where there is no space for it."""
    kind = StorageFull if error.errno in _FULL else StoreError
    return kind(f"{what}: could not be written ({error.strerror or error})", hint=hint, path=what)


def write_atomically(path: Path, content: bytes) -> None:
    """Writes `content` so that `path` is never seen half-written: temporary name, fsync, rename.

    Raises StoreError, with nothing left behind, where the folder cannot be written or the disk is full.
    """
    temporary: str | None = None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=PARTIAL)
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, 0o644)
        os.replace(temporary, path)
        temporary = None
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
    except OSError as error:
        raise unwritten(
            error, str(path), hint="check free space and permissions of its folder; nothing was changed"
        ) from error
    finally:
        if temporary is not None and os.path.exists(temporary):
            os.unlink(temporary)
