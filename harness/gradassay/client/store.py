"""The service as a store of goldens and records, so that every command that reads a store reads the service as well."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from gradassay.client.client import ServiceClient, segment
from gradassay.client.pages import every
from gradassay.goldens.container import digest_of_file
from gradassay.goldens.errors import InvalidFile, NotFound, ServiceError, StoreError
from gradassay.goldens.golden import read_golden
from gradassay.goldens.record import read_record
from gradassay.goldens.settings import Settings
from gradassay.goldens.store.approval import DEFAULT_CHANNEL, Approval
from gradassay.goldens.store.lookup import pick_golden
from gradassay.goldens.store.protocol import GoldenVersion, StoredRecord
from gradassay.goldens.store.staging import verified

MOVES = ("approved", "undone", "adopted")
"""Actions of the ledger after which a channel may point elsewhere."""


class ServiceStore:
    """Satisfies gradassay.goldens.store.keeper.Keeper; files are kept in the cache folder by digest."""

    def __init__(self, client: ServiceClient, cache: Path | None = None) -> None:
        self.client = client
        self._cache = cache or Settings.load().cache

    def __str__(self) -> str:
        return f"the service {self.client.url}"

    def put_golden(self, path: Path) -> GoldenVersion:
        """Proposes the golden as the next version of its name; the same content again gives the same version."""
        name = read_golden(path).name
        answer, _ = self.client.send_file(f"{_golden(name)}/versions", path, digest_of_file(path))
        return _version(answer)

    def goldens(self, name: str | None = None) -> Sequence[GoldenVersion]:
        """All versions, of all names or of one, by name and version."""
        return [version for version, _ in self.standing(name)]

    def standing(self, name: str | None = None) -> Sequence[tuple[GoldenVersion, str]]:
        """All versions as `goldens` orders them, each with what became of it: proposed, approved, rejected ..."""
        if name is None:
            names = sorted(golden["name"] for golden in self.client.get("/goldens"))
            return [pair for known in names for pair in self.standing(known)]
        try:
            answers = self.client.get(f"{_golden(name)}/versions")
        except NotFound:
            return []
        return [(_version(answer), answer["status"]) for answer in sorted(answers, key=lambda item: item["version"])]

    def find_golden(self, name: str, version: int | None = None, *, channel: str = DEFAULT_CHANNEL) -> GoldenVersion:
        """The given version of `name`, or the one that `channel` points to."""
        return pick_golden(self.goldens(name), name, version, channel, location=str(self))

    def golden_path(self, name: str, version: int | None = None, *, channel: str = DEFAULT_CHANNEL) -> Path:
        """A local file with the given version, or with the one that `channel` points to."""
        entry = self.find_golden(name, version, channel=channel)
        return self._fetched(f"{_golden(name)}/versions/{entry.version}/file", entry.digest)

    def approvals(self, name: str) -> Sequence[Approval]:
        """The approvals of all channels of `name` and the undoing of them, oldest first."""
        entries = [entry for entry in every(self.client, "/ledger", golden=name) if entry["action"] in MOVES]
        return [_approval(entry) for entry in sorted(entries, key=lambda entry: entry["number"]) if entry["channel"]]

    def put_record(self, path: Path) -> StoredRecord:
        """Posts the record; the same content again gives the same run."""
        read_record(path)
        answer, _ = self.client.send_file("/runs", path, digest_of_file(path))
        return _record(answer)

    def find_record(self, reference: str) -> StoredRecord:
        """The run of this id or digest."""
        return _record(self.client.get(f"/runs/{segment(reference)}"))

    def record_path(self, reference: str) -> Path:
        """A local file with the record of this run."""
        entry = self.find_record(reference)
        return self._fetched(f"/runs/{segment(entry.id)}/record", entry.digest)

    def _fetched(self, path: str, digest: str) -> Path:
        cached = self._cache / f"{digest.removeprefix('sha256:')}.safetensors"
        if cached.exists():
            try:
                return verified(cached, digest)
            except InvalidFile:
                cached.unlink(missing_ok=True)
        try:
            self._cache.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(dir=self._cache, prefix=".fetching.") as folder:
                fetched = Path(folder) / "file"
                found = self.client.fetch(path, fetched)
                if found != digest:
                    raise ServiceError(f"{self.client.url}: {path} has digest {found}, the service says {digest}")
                os.replace(fetched, cached)
        except OSError as error:
            raise StoreError(
                f"{self._cache}: a fetched file could not be kept ({error.strerror or error})",
                hint="make room, or name another folder in GRADASSAY_CACHE",
            ) from error
        return cached


def approve(
    client: ServiceClient, name: str, version: int, *, channel: str, why: str, expected: int | None
) -> dict[str, Any]:
    """The entry of the ledger: `approved`, or `endorsed` where a second reviewer has to approve as well.

    expected: what the channel points to, 0 for nowhere; None: whatever that is. It is not sent again where it may have
    been obeyed. Raises Conflict where the channel points elsewhere or somebody decided about the version before.
    """
    path = f"{_golden(name)}/channels/{segment(channel)}"
    document = {"version": version, "expected_version": expected, "why": why}
    entry: dict[str, Any] = client.ask("PUT", path, document=document, repeatable=False)
    return entry


def reject(
    client: ServiceClient, name: str, version: int, *, channel: str, why: str, expected: int | None
) -> dict[str, Any]:
    """The entry of the ledger that rejects the version; otherwise as `approve`."""
    path = f"{_golden(name)}/versions/{version}/rejection"
    document = {"why": why, "channel": channel, "expected_version": expected}
    entry: dict[str, Any] = client.ask("POST", path, document=document, repeatable=False)
    return entry


def undo(client: ServiceClient, number: int, *, why: str) -> dict[str, Any]:
    """The entry that takes entry `number` of the ledger back; it is not sent again where it may have been obeyed.

    Raises NotFound, UsageError for an entry that cannot be undone, Conflict where something came after it.
    """
    entry: dict[str, Any] = client.ask("POST", f"/ledger/{number}/undo", document={"why": why}, repeatable=False)
    return entry


def _golden(name: str) -> str:
    return f"/goldens/{segment(name)}"


def _version(answer: dict[str, Any]) -> GoldenVersion:
    return GoldenVersion(
        name=answer["name"],
        version=answer["version"],
        digest=answer["digest"],
        created=answer["proposed_at"],
        channels=tuple(answer["channels"]),
    )


def _record(answer: dict[str, Any]) -> StoredRecord:
    return StoredRecord(
        id=answer["id"],
        digest=answer["digest"],
        problem=answer["problem"],
        strategy=answer["strategy"],
        layout=answer["layout"],
        dtype=answer["dtype"],
        created=answer["posted_at"],
    )


def _approval(entry: dict[str, Any]) -> Approval:
    return Approval(
        name=entry["golden"],
        channel=entry["channel"],
        version=entry["version"] or 0,
        previous=entry["previous"] or None,
        who=entry["who"],
        why=entry["why"] if entry["action"] == "approved" else f"{entry['action']}: {entry['why']}",
        when=entry["at"],
    )
