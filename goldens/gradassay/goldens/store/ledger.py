"""The approvals of one golden in a file: one JSON object a line, only ever added to."""

from __future__ import annotations

import json
import os
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from gradassay.goldens.errors import StoreError
from gradassay.goldens.store.approval import Approval

_ENTRY = TypeAdapter(Approval)


def read_ledger(path: Path) -> tuple[Approval, ...]:
    """The entries, oldest first; none where the file does not exist.

    A last line without its newline is an entry that its writer never finished, and counts as not written. Raises
    StoreError for a line that is no entry.
    """
    entries = []
    for number, line in enumerate(_whole_lines(path), start=1):
        try:
            entries.append(_ENTRY.validate_json(line))
        except ValidationError as error:
            raise StoreError(
                f"{path}: line {number} is no approval: {line[:80].decode(errors='replace')!r}",
                hint="the file was edited or damaged; restore it from a backup",
                path=str(path),
                line=number,
            ) from error
    return tuple(entries)


def append(path: Path, entry: Approval) -> None:
    """Adds one entry durably. The caller holds the store's lock; what an interrupted writer left is cut off first."""
    whole = sum(len(line) + 1 for line in _whole_lines(path))
    line = json.dumps(entry.to_json(), ensure_ascii=False, allow_nan=False) + "\n"
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        with os.fdopen(descriptor, "r+b") as file:
            file.truncate(whole)
            file.seek(whole)
            file.write(line.encode())
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        raise StoreError(
            f"{path}: the approval could not be written ({error.strerror or error})",
            hint="check free space and permissions; the approval did not take effect",
            path=str(path),
        ) from error


def _whole_lines(path: Path) -> list[bytes]:
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return []
    except OSError as error:
        raise StoreError(f"{path}: cannot be read ({error.strerror or error})", path=str(path)) from error
    return content.split(b"\n")[:-1]
