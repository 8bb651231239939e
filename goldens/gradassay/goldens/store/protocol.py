"""What every store of goldens and records can do."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol


@dataclass(frozen=True, slots=True, kw_only=True)
class GoldenVersion:
    """One immutable version of a golden. channels: those that it is approved for, e.g. ("approved",)."""

    name: str
    version: int
    digest: str
    created: str
    channels: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredRecord:
    """One record. id: the store's own (an MLflow run id, say)."""

    id: str
    digest: str
    problem: str
    strategy: str
    layout: str
    dtype: str
    created: str


class GoldenStore(Protocol):
    """Keeps goldens and records; writing the same content twice gives the same entry.

    Methods that look something up raise NotFound (a version, a record) or NoGolden (no approved version); every method raises
    StoreError where the store cannot be reached.
    """

    def put_golden(self, path: Path) -> GoldenVersion:
        """Validates the golden file at `path` and keeps it as the next version of its name."""
        ...

    def goldens(self, name: str | None = None) -> Sequence[GoldenVersion]:
        """All versions, of all names or of one, oldest first."""
        ...

    def golden_path(self, name: str, version: int | None = None, *, channel: str = "approved") -> Path:
        """A local file with the given version, or with the one that `channel` points to; its digest is verified."""
        ...

    def approve(
        self, name: str, version: int, *, channel: str = "approved", who: str, why: str, expected: int | None = None
    ) -> GoldenVersion:
        """Points `channel` at `version`; raises Conflict where `expected` is given and is not the present one."""
        ...

    def put_record(self, path: Path) -> StoredRecord:
        """Validates the record file at `path` and keeps it."""
        ...

    def records(self) -> Sequence[StoredRecord]:
        """All records, oldest first."""
        ...

    def record_path(self, reference: str) -> Path:
        """A local file with the record of this id or digest."""
        ...
