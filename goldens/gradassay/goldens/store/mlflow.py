"""Goldens and records in MLflow: golden versions as registered-model versions, records as runs."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from gradassay.goldens.golden import read_golden
from gradassay.goldens.record import read_record
from gradassay.goldens.store import approval, names
from gradassay.goldens.store.approval import DEFAULT_CHANNEL, Approval
from gradassay.goldens.store.lookup import pick_golden, pick_record
from gradassay.goldens.store.mlflow_approvals import APPROVED, approve, repair, withdraw
from gradassay.goldens.store.mlflow_client import Connection
from gradassay.goldens.store.mlflow_runs import DIGEST, SIZE, delete_run, fetch, publish_run, visible_run, visible_runs
from gradassay.goldens.store.mlflow_summary import golden_summary, record_summary
from gradassay.goldens.store.mlflow_versions import GOLDEN, append_version, ledger_entry, search_versions, utc
from gradassay.goldens.store.protocol import GoldenVersion, StoredRecord
from gradassay.goldens.store.staging import remove_abandoned_folders, staged, staging_folder

if TYPE_CHECKING:
    from mlflow.entities import Run
    from mlflow.entities.model_registry import ModelVersion

RECORDS = "gradassay-records"
GOLDENS = "gradassay-goldens"
RECORD_FILE = "record.safetensors"
GOLDEN_FILE = "golden.safetensors"
_RUN_ID = re.compile(r"[0-9a-f]{32}")
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")


class MlflowStore:
    """A store behind an MLflow tracking URI; nothing is opened before the first call.

    The ledger of approvals decides what a channel points to; MLflow's aliases are a mirror for those who look there.
    """

    def __init__(self, uri: str, *, artifacts: str, cache: Path) -> None:
        self._connection = Connection(uri, artifacts=artifacts, cache=cache)

    def __str__(self) -> str:
        return str(self._connection)

    def put_golden(self, path: Path) -> GoldenVersion:
        """Keeps the golden as a run and as the next version of its registered model."""
        connection = self._connection
        with staging_folder() as folder, staged(path, folder, read_golden) as incoming:
            name, digest, size = incoming.content.name, incoming.digest, str(incoming.path.stat().st_size)
            model = GOLDEN + names.encode(name)
            summary = golden_summary(incoming.content)
            with connection.writing():
                known = self._with_digest(name, digest)
                if known is not None:
                    return known
                run = publish_run(connection, GOLDENS, name, incoming.path, GOLDEN_FILE, digest, summary)
                row = append_version(connection, model, run, {**summary.tags, DIGEST: digest, SIZE: size})
                return self._keep_first(name, digest, row)

    def _with_digest(self, name: str, digest: str) -> GoldenVersion | None:
        return next((version for version in self.goldens(name) if version.digest == digest), None)

    def _keep_first(self, name: str, digest: str, row: ModelVersion) -> GoldenVersion:
        """Of versions with one content, the lowest stays: whoever made a later one takes it back."""
        first = self._with_digest(name, digest)
        if first is not None and first.version < int(row.version):
            with self._connection.calling() as client:
                client.delete_model_version(row.name, str(row.version))
                client.delete_run(str(row.run_id))
            return first
        return _golden_version(row, {})

    def goldens(self, name: str | None = None) -> Sequence[GoldenVersion]:
        """All versions, of all names or of one, by name and version."""
        rows, ledger = search_versions(self._connection, name)
        pointing: dict[str, dict[str, int]] = {}
        entries = [ledger_entry(row) for row in ledger]
        for golden in {entry.name for entry in entries}:
            pointing[golden] = approval.channels(entry for entry in entries if entry.name == golden)
        return [_golden_version(row, pointing) for row in rows if DIGEST in row.tags]

    def find_golden(self, name: str, version: int | None = None, *, channel: str = DEFAULT_CHANNEL) -> GoldenVersion:
        """The given version of `name`, or the one that `channel` points to."""
        return pick_golden(self.goldens(name), name, version, channel, location=str(self))

    def golden_path(self, name: str, version: int | None = None, *, channel: str = DEFAULT_CHANNEL) -> Path:
        """A local file of that version: the copy made on approval where there is one, else that of its own run."""
        entry = self.find_golden(name, version, channel=channel)
        rows, ledger = search_versions(self._connection, name)
        copies = [str(row.run_id) for row in ledger if ledger_entry(row).version == entry.version]
        own = [str(row.run_id) for row in rows if int(row.version) == entry.version]
        return fetch(self._connection, list(dict.fromkeys(copies + own)), GOLDEN_FILE, entry.digest)

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
        """Points `channel` at `version`, after a copy of its file is safe from `mlflow gc`."""
        approval.check_request(channel, who, why)
        entry = self.find_golden(name, version)
        path = self.golden_path(name, version)
        with self._connection.writing():
            approve(self._connection, entry, path, GOLDEN_FILE, channel=channel, who=who, why=why, expected=expected)
        return self.find_golden(name, version)

    def withdraw(self, name: str, *, channel: str, who: str, why: str, expected: int | None = None) -> None:
        """Points `channel` at no version, and removes its alias."""
        approval.check_request(channel, who, why)
        with self._connection.writing():
            withdraw(self._connection, name, channel=channel, who=who, why=why, expected=expected)

    def approvals(self, name: str) -> Sequence[Approval]:
        """The history of all channels of `name`, oldest first."""
        _, ledger = search_versions(self._connection, name)
        return approval.effective(ledger_entry(row) for row in ledger)

    def delete_golden(self, name: str, version: int) -> None:
        """Deletes the version, its run and, where no other version has its content, the copies made on approval."""
        connection = self._connection
        with connection.writing():
            entry = self.find_golden(name, version)
            approval.check_unused(name, version, entry.channels)
            rows, _ = search_versions(connection, name)
            row = next(row for row in rows if int(row.version) == version)
            with connection.calling() as client:
                client.delete_model_version(row.name, row.version)
            copies = [run.info.run_id for run in visible_runs(connection, APPROVED, entry.digest)]
            for run_id in [str(row.run_id), *copies]:
                delete_run(connection, run_id, GOLDEN_FILE)

    def put_record(self, path: Path) -> StoredRecord:
        """Keeps the record as a run with a few summary metrics."""
        connection = self._connection
        with staging_folder() as folder, staged(path, folder, read_record) as incoming:
            header = incoming.content.header
            summary = record_summary(incoming.content)
            title = f"{header.problem.name} {header.strategy} {header.layout}"
            with connection.writing():
                known = visible_runs(connection, RECORDS, incoming.digest)
                if not known:
                    publish_run(connection, RECORDS, title, incoming.path, RECORD_FILE, incoming.digest, summary)
                    known = visible_runs(connection, RECORDS, incoming.digest)
                return _stored_record(known[0])

    def records(self) -> Sequence[StoredRecord]:
        """All records, oldest first; one that two writers posted at the same moment once."""
        first: dict[str, StoredRecord] = {}
        for run in visible_runs(self._connection, RECORDS):
            record = _stored_record(run)
            first.setdefault(record.digest, record)
        return list(first.values())

    def find_record(self, reference: str) -> StoredRecord:
        """The record of this run id or digest, or of the beginning of one."""
        if _RUN_ID.fullmatch(reference):
            run = visible_run(self._connection, RECORDS, reference)
            if run is not None:
                return _stored_record(run)
        if _DIGEST.fullmatch(reference):
            runs = visible_runs(self._connection, RECORDS, reference)
            return pick_record([_stored_record(run) for run in runs], reference, location=str(self))
        return pick_record(self.records(), reference, location=str(self))

    def record_path(self, reference: str) -> Path:
        """A local file of that record."""
        entry = self.find_record(reference)
        return fetch(self._connection, [entry.id], RECORD_FILE, entry.digest)

    def delete_record(self, reference: str) -> None:
        """Deletes the record's run and, where it was posted twice at the same moment, the other one."""
        connection = self._connection
        with connection.writing():
            for run in visible_runs(connection, RECORDS, self.find_record(reference).digest):
                delete_run(connection, run.info.run_id, RECORD_FILE)

    def repair(self) -> Sequence[str]:
        """Sets every alias to what the history says, and says which were not."""
        with self._connection.writing():
            return repair(self._connection)

    def remove_abandoned(self) -> int:
        """How many files it removed that writers on this machine left in their staging folders when they died."""
        return remove_abandoned_folders()


def _golden_version(row: ModelVersion, pointing: dict[str, dict[str, int]]) -> GoldenVersion:
    name, version = names.decode(row.name.removeprefix(GOLDEN)), int(row.version)
    return GoldenVersion(
        name=name,
        version=version,
        digest=row.tags[DIGEST],
        created=utc(row.creation_timestamp),
        size=int(row.tags.get(SIZE, 0)),
        channels=tuple(sorted(channel for channel, to in pointing.get(name, {}).items() if to == version)),
    )


def _stored_record(run: Run) -> StoredRecord:
    tags = run.data.tags
    return StoredRecord(
        id=run.info.run_id,
        digest=tags[DIGEST],
        problem=tags["gradassay.problem"],
        strategy=tags["gradassay.strategy"],
        layout=tags["gradassay.layout"],
        dtype=tags["gradassay.dtype"],
        created=utc(run.info.start_time),
        size=int(tags.get(SIZE, 0)),
    )
