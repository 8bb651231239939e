"""Goldens and records in a folder: plain files that a person can list, copy and keep under version control."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from pydantic import TypeAdapter, ValidationError

from gradassay.goldens.atomic import PARTIAL, write_atomically
from gradassay.goldens.container import digest_of_file
from gradassay.goldens.errors import StoreError
from gradassay.goldens.golden import read_golden
from gradassay.goldens.record import read_record
from gradassay.goldens.store import approval, ledger, names
from gradassay.goldens.store.approval import DEFAULT_CHANNEL, Approval
from gradassay.goldens.store.lock import locked
from gradassay.goldens.store.lookup import pick_golden, pick_record
from gradassay.goldens.store.protocol import GoldenVersion, StoredRecord
from gradassay.goldens.store.staging import now, publish, remove_abandoned, staged, verified

Entry = TypeVar("Entry", GoldenVersion, StoredRecord)
_VERSION: TypeAdapter[GoldenVersion] = TypeAdapter(GoldenVersion)
_DIGEST_START = re.compile(r"[0-9a-f]{8,64}")
_RECORD: TypeAdapter[StoredRecord] = TypeAdapter(StoredRecord)


class DirectoryStore:
    """A store in a folder, made when something is first written.

    `records/<digest>.safetensors` and `goldens/<name>/v<N>.safetensors` each become visible with the `.json` beside
    them, which is written last; `goldens/<name>/approvals.jsonl` is the history of approvals. Writers of one name take
    turns by a lock file; readers need none.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder.absolute()

    def __str__(self) -> str:
        return f"dir:{self.folder}"

    def put_golden(self, path: Path) -> GoldenVersion:
        """Keeps the golden as the next version of its name; the same content twice gives the same version."""
        with staged(path, self.folder / "goldens", read_golden) as incoming:
            name = incoming.content.name
            folder = self._golden_folder(name)
            with locked(folder / ".lock"):
                versions = self.goldens(name)
                for known in versions:
                    if known.digest == incoming.digest:
                        _repair(folder / f"v{known.version}.safetensors", known.digest, incoming.path)
                        return known
                number = 1 + max(_numbers(folder), default=0)
                size = incoming.path.stat().st_size
                entry = GoldenVersion(name=name, version=number, digest=incoming.digest, created=now(), size=size)
                publish(incoming.path, folder / f"v{number}.safetensors")
                write_atomically(folder / f"v{number}.json", _VERSION.dump_json(entry, indent=1, exclude={"channels"}))
                return entry

    def goldens(self, name: str | None = None) -> Sequence[GoldenVersion]:
        """All versions, of all names or of one, by name and version."""
        if name is None:
            found = sorted(names.decode(folder.name) for folder in (self.folder / "goldens").glob("*/"))
            return [version for known in found for version in self.goldens(known)]
        folder = self._golden_folder(name)
        pointing = approval.channels(ledger.read_ledger(folder / "approvals.jsonl"))
        entries = [_read(_VERSION, path) for path in folder.glob("v*.json")]
        return [
            replace(entry, channels=tuple(sorted(word for word, to in pointing.items() if to == entry.version)))
            for entry in sorted(entries, key=lambda entry: entry.version)
        ]

    def find_golden(self, name: str, version: int | None = None, *, channel: str = DEFAULT_CHANNEL) -> GoldenVersion:
        """The given version of `name`, or the one that `channel` points to."""
        return pick_golden(self.goldens(name), name, version, channel, location=str(self))

    def golden_path(self, name: str, version: int | None = None, *, channel: str = DEFAULT_CHANNEL) -> Path:
        """The store's own file of that version, its digest verified."""
        entry = self.find_golden(name, version, channel=channel)
        return verified(self._golden_folder(name) / f"v{entry.version}.safetensors", entry.digest)

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
        """Points `channel` at `version`, comparing and setting under the name's lock."""
        approval.check_request(channel, who, why)
        self.golden_path(name, version)
        self._point(name, channel, version, who=who, why=why, expected=expected)
        return self.find_golden(name, version)

    def withdraw(self, name: str, *, channel: str, who: str, why: str, expected: int | None = None) -> None:
        """Points `channel` at no version, comparing and setting under the name's lock."""
        approval.check_request(channel, who, why)
        self._point(name, channel, 0, who=who, why=why, expected=expected)

    def _point(self, name: str, channel: str, version: int, *, who: str, why: str, expected: int | None) -> None:
        folder = self._golden_folder(name)
        path = folder / "approvals.jsonl"
        with locked(folder / ".lock"):
            present = approval.channels(ledger.read_ledger(path)).get(channel)
            approval.check_expected(name, channel, expected, present)
            if version or present:
                ledger.append(
                    path,
                    Approval(
                        name=name, channel=channel, version=version, previous=present, who=who, why=why, when=now()
                    ),
                )

    def approvals(self, name: str) -> Sequence[Approval]:
        """The history of all channels of `name`, oldest first."""
        return approval.effective(ledger.read_ledger(self._golden_folder(name) / "approvals.jsonl"))

    def delete_golden(self, name: str, version: int) -> None:
        """Deletes the version; an empty `v<N>.deleted` keeps its number."""
        folder = self._golden_folder(name)
        with locked(folder / ".lock"):
            entry = self.find_golden(name, version)
            approval.check_unused(name, version, entry.channels)
            write_atomically(folder / f"v{version}.deleted", b"")
            _remove(folder / f"v{version}.json", folder / f"v{version}.safetensors")

    def put_record(self, path: Path) -> StoredRecord:
        """Keeps the record under its digest."""
        folder = self.folder / "records"
        with staged(path, folder, read_record) as incoming:
            digest = incoming.digest.removeprefix("sha256:")
            with locked(folder / ".lock"):
                entry_path, content_path = folder / f"{digest}.json", folder / f"{digest}.safetensors"
                if entry_path.exists():
                    _repair(content_path, incoming.digest, incoming.path)
                    return _read(_RECORD, entry_path)
                header = incoming.content.header
                entry = StoredRecord(
                    id=digest[:16],
                    digest=incoming.digest,
                    problem=header.problem.name,
                    strategy=header.strategy,
                    layout=str(header.layout),
                    dtype=str(header.dtype),
                    created=now(),
                    size=incoming.path.stat().st_size,
                )
                publish(incoming.path, content_path)
                write_atomically(entry_path, _RECORD.dump_json(entry, indent=1))
                return entry

    def records(self) -> Sequence[StoredRecord]:
        """All records, oldest first."""
        entries = [_read(_RECORD, path) for path in (self.folder / "records").glob("*.json")]
        return sorted(entries, key=lambda entry: (entry.created, entry.digest))

    def find_record(self, reference: str) -> StoredRecord:
        """The record of this id or digest, or of the beginning of one."""
        start = reference.removeprefix("sha256:")
        if _DIGEST_START.fullmatch(start):
            found = [_read(_RECORD, path) for path in (self.folder / "records").glob(f"{start}*.json")]
            return pick_record(found, reference, location=str(self))
        return pick_record(self.records(), reference, location=str(self))

    def record_path(self, reference: str) -> Path:
        """The store's own file of that record, its digest verified."""
        entry = self.find_record(reference)
        return verified(self.folder / "records" / f"{entry.digest.removeprefix('sha256:')}.safetensors", entry.digest)

    def delete_record(self, reference: str) -> None:
        """Deletes the record and what describes it."""
        folder = self.folder / "records"
        with locked(folder / ".lock"):
            digest = self.find_record(reference).digest.removeprefix("sha256:")
            _remove(folder / f"{digest}.json", folder / f"{digest}.safetensors")

    def repair(self) -> Sequence[str]:
        """Nothing: whoever lists the folder reads the history itself."""
        return ()

    def remove_abandoned(self) -> int:
        """How many files it removed that writers left half-written when they died."""
        records, goldens = self.folder / "records", self.folder / "goldens"
        removed = remove_abandoned(records) + remove_abandoned(goldens)
        for folder in (records, *goldens.glob("*/")):
            if not any(folder.glob(f".*{PARTIAL}")):
                continue
            with locked(folder / ".lock"):
                for path in folder.glob(f".*{PARTIAL}"):
                    path.unlink(missing_ok=True)
                    removed += 1
        return removed

    def _golden_folder(self, name: str) -> Path:
        return self.folder / "goldens" / names.encode(name)


def _repair(path: Path, digest: str, good: Path) -> None:
    if not path.exists() or digest_of_file(path) != digest:
        publish(good, path)


def _numbers(folder: Path) -> list[int]:
    """The numbers of versions that there are, or were before they were deleted."""
    known = [*folder.glob("v*.json"), *folder.glob("v*.deleted")]
    return [int(path.stem.removeprefix("v")) for path in known]


def _remove(*paths: Path) -> None:
    try:
        for path in paths:
            path.unlink(missing_ok=True)
    except OSError as error:
        raise StoreError(
            f"{error.filename}: could not be deleted ({error.strerror or error})",
            hint="check permissions of the store's folder, then delete it again",
            path=str(error.filename),
        ) from error


def _read(adapter: TypeAdapter[Entry], path: Path) -> Entry:
    try:
        return adapter.validate_json(path.read_bytes())
    except (OSError, ValidationError) as error:
        raise StoreError(
            f"{path}: is no entry of a store ({str(error).splitlines()[0]})",
            hint="the file was edited or damaged; restore it from a backup",
            path=str(path),
        ) from error
