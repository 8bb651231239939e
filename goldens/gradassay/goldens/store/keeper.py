"""What a store of ours and a service have in common."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from gradassay.goldens.store.approval import Approval
from gradassay.goldens.store.protocol import GoldenVersion, StoredRecord


class Keeper(Protocol):
    """What doors ask of a store, and what a service does as well; see gradassay.goldens.store.protocol.GoldenStore."""

    def put_golden(self, path: Path) -> GoldenVersion:
        """Keeps the golden as the next version of its name."""
        ...

    def put_record(self, path: Path) -> StoredRecord:
        """Keeps the record."""
        ...

    def goldens(self, name: str | None = None) -> Sequence[GoldenVersion]:
        """All versions, of all names or of one."""
        ...

    def approvals(self, name: str) -> Sequence[Approval]:
        """The history of all channels of `name`, oldest first."""
        ...

    def golden_path(self, name: str, version: int | None = None, *, channel: str = ...) -> Path:
        """A local file with the given version, or with the one that `channel` points to."""
        ...

    def record_path(self, reference: str) -> Path:
        """A local file with the record of this id or digest."""
        ...
