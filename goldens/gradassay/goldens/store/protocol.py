"""What every store of goldens and records can do."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from gradassay.goldens.store.approval import DEFAULT_CHANNEL, Approval


@dataclass(frozen=True, slots=True, kw_only=True)
class GoldenVersion:
    """One immutable version of a golden.

    created: when it was stored, UTC, ISO 8601. channels: which point to it. size: of its file in bytes, 0 where that is
    not known.
    """

    name: str
    version: int
    digest: str
    created: str
    channels: tuple[str, ...] = ()
    size: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredRecord:
    """One record.

    id: the store's own (an MLflow run id, say). created: when it was stored, UTC, ISO 8601. size: of its file in bytes,
    0 where that is not known.
    """

    id: str
    digest: str
    problem: str
    strategy: str
    layout: str
    dtype: str
    created: str
    size: int = 0


class GoldenStore(Protocol):
    """Keeps goldens and records; writing the same content twice gives the same entry.

    Methods that look something up raise NotFound (a version, a record) or NoGolden (a channel that points nowhere);
    every method raises StoreError where the store cannot be used, its subclass Unreachable where nothing answers.
    Methods that give a path verify the file's digest and raise InvalidFile where it differs.
    """

    def put_golden(self, path: Path) -> GoldenVersion:
        """Validates the golden file at `path` and keeps it as the next version of its name."""
        ...

    def goldens(self, name: str | None = None) -> Sequence[GoldenVersion]:
        """All versions, of all names or of one, by name and version."""
        ...

    def find_golden(self, name: str, version: int | None = None, *, channel: str = DEFAULT_CHANNEL) -> GoldenVersion:
        """The given version of `name`, or the one that `channel` points to; no file is read."""
        ...

    def golden_path(self, name: str, version: int | None = None, *, channel: str = DEFAULT_CHANNEL) -> Path:
        """A local file with the given version, or with the one that `channel` points to."""
        ...

    def approve(
        self,
        name: str,
        version: int,
        *,
        channel: str = DEFAULT_CHANNEL,
        who: str,
        why: str,
        expected: int | None = None,
    ) -> GoldenVersion:
        """Points `channel` at `version` and adds that to the history.

        expected: the version that the caller believes `channel` points to, 0 for none; Conflict where it is another.
        """
        ...

    def withdraw(self, name: str, *, channel: str, who: str, why: str, expected: int | None = None) -> None:
        """Points `channel` at no version and adds that to the history; nothing happens where it points nowhere.

        expected: as of `approve`.
        """
        ...

    def approvals(self, name: str) -> Sequence[Approval]:
        """The history of all channels of `name`, oldest first; it is only ever added to."""
        ...

    def delete_golden(self, name: str, version: int) -> None:
        """Deletes the version and its file; its number is never given again. Conflict where a channel points to it."""
        ...

    def put_record(self, path: Path) -> StoredRecord:
        """Validates the record file at `path` and keeps it."""
        ...

    def records(self) -> Sequence[StoredRecord]:
        """All records, oldest first."""
        ...

    def find_record(self, reference: str) -> StoredRecord:
        """The record of this id or digest; no file is read."""
        ...

    def record_path(self, reference: str) -> Path:
        """A local file with the record of this id or digest."""
        ...

    def delete_record(self, reference: str) -> None:
        """Deletes the record of this id or digest, and its file."""
        ...

    def repair(self) -> Sequence[str]:
        """What was repaired, a sentence each: what shows the channels to others did not say what the history says."""
        ...

    def remove_abandoned(self) -> int:
        """How many files it removed that writers left half-written when they died."""
        ...
