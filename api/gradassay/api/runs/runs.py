"""All runs: what was posted, and what the command line left in the store."""

from __future__ import annotations

import re
import threading
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import structlog
from sqlalchemy import ColumnElement, delete, select, update
from sqlalchemy.exc import IntegrityError

from gradassay.api.auth.caller import EVERY_PROJECT, Caller
from gradassay.api.database.database import Database
from gradassay.api.database.tables import ClaimRow, RunRow
from gradassay.api.database.text import is_text
from gradassay.api.paging import LARGEST, Page
from gradassay.api.runs.inspection import inspect_record
from gradassay.api.runs.run import DEFAULT_PROJECT, Run, run_id
from gradassay.goldens.container import FORMAT, open_container
from gradassay.goldens.errors import InvalidFile, NotFound, StoreError, UnknownFormat, Unreachable, UsageError
from gradassay.goldens.header import RecordHeader, dump_header, parse_header
from gradassay.goldens.store.protocol import GoldenStore, StoredRecord

READ_AT_ONCE = 2
"""Files are read into memory to be checked; more at once would take more memory than anybody planned for."""
_POSTING = "post:"
ANNOUNCED = timedelta(hours=1)
"""How long a record may be on its way into the store; gc waits so long for it."""
_HEXADECIMAL = re.compile(r"(sha256:)?[0-9a-f]{8,64}")
log = structlog.get_logger("gradassay.runs")


class Runs:
    """Records in the store, indexed in the database; the file is there before the row that names it."""

    def __init__(self, database: Database, store: GoldenStore) -> None:
        self._database = database
        self._store = store
        self._reading = threading.BoundedSemaphore(READ_AT_ONCE)
        self._unreadable: set[str] = set()

    def post(self, path: Path, digest: str, *, who: str, project: str) -> tuple[Run, bool]:
        """The run of the record at `path`, and whether it is new to the project.

        digest: of the file's content. Raises InvalidFile or UnknownFormat for a file that is not kept, StoreError.
        """
        known = self._by_digest(project, digest)
        if known is not None:
            return known, False
        with self._reading:
            header = _read_header(path)
            inspect_record(header, path)
            # The store shows the record before the row does: nobody may adopt it into another project meanwhile.
            self._announce(digest)
            try:
                stored = self._store.put_record(path)
            except (InvalidFile, UnknownFormat):
                self._forget(digest)
                raise
        return self._index(stored, header, who=who, project=project, posted_at=datetime.now(UTC))

    def find(self, run: str, caller: Caller) -> Run:
        """The run of this id or digest, or of the beginning of one, among those that the caller sees.

        Raises NotFound, UsageError where several begin like this.
        """
        wanted = run.removeprefix("run:")
        found: list[RunRow] = []
        if _HEXADECIMAL.fullmatch(wanted):
            start = wanted.removeprefix("sha256:")
            begins = RunRow.id.startswith(start) | RunRow.digest.startswith(f"sha256:{start}")
            with self._database.read() as session:
                for condition in (RunRow.id == wanted, begins):
                    rows = session.scalars(select(RunRow).where(condition).order_by(RunRow.number))
                    found = [row for row in rows if caller.sees(row.project)]
                    if found:
                        break
        if not found:
            raise NotFound(
                f"run {wanted[:80]!r} is not known",
                hint="GET /api/v1/runs lists the runs of your project; a token sees its own only",
                run=wanted[:80],
            )
        if len(found) > 1:
            raise UsageError(
                f"run {wanted}: {len(found)} runs begin like this",
                hint=f"write more of it: {', '.join(row.id for row in found[:5])}",
                run=wanted,
            )
        return Run.from_row(found[0])

    def of_id(self, run: str) -> Run:
        """The run of exactly this id, whoever asks; raises NotFound."""
        with self._database.read() as session:
            row = session.scalar(select(RunRow).where(RunRow.id == run))
        if row is None:
            raise NotFound(f"run {run[:80]!r} is not known", run=run[:80])
        return Run.from_row(row)

    def page(
        self,
        project: str,
        *,
        problem: str | None = None,
        dtype: str | None = None,
        strategy: str | None = None,
        framework: str | None = None,
        before: int | None = None,
        limit: int = 50,
    ) -> Page[Run]:
        """The project's runs ("*": those of all), newest first; before: those with a smaller number only."""
        limit = max(1, min(limit, LARGEST))
        wanted = {"problem": problem, "dtype": dtype, "strategy": strategy, "framework": framework}
        if not is_text(*(value for value in wanted.values() if value)):
            return Page(items=(), next=None)
        conditions: list[ColumnElement[bool]] = []
        for name, value in wanted.items():
            if value is not None:
                conditions.append(getattr(RunRow, name) == value)
        if project != EVERY_PROJECT:
            conditions.append(RunRow.project == project)
        if before is not None:
            conditions.append(RunRow.number < before)
        query = select(RunRow).where(*conditions).order_by(RunRow.number.desc()).limit(limit + 1)
        with self._database.read() as session:
            rows = session.scalars(query).all()
        items = tuple(Run.from_row(row) for row in rows[:limit])
        return Page(items=items, next=items[-1].number if len(rows) > limit else None)

    def path(self, run: Run) -> Path:
        """A local file with the run's record; raises StoreError where it is gone or damaged."""
        try:
            return self._store.record_path(run.stored)
        except (InvalidFile, NotFound) as error:
            raise StoreError(f"run {run.id}: its record is gone or damaged", hint=error.hint, run=run.id) from error

    def adopt(self) -> int:
        """How many records it indexed that were in the store and unknown, as those that the command line made.

        They become runs of the project `default`; what somebody is posting just now is left alone.
        """
        found = self._store.records()
        with self._database.read() as session:
            known = set(session.scalars(select(RunRow.digest)))
            announced = set(session.scalars(select(ClaimRow.assay).where(ClaimRow.assay.startswith(_POSTING))))
        adopted = 0
        for record in found:
            unknown = record.digest not in known and announcement(record.digest) not in announced
            if unknown and record.digest not in self._unreadable:
                adopted += self._adopt(record)
        return adopted

    def _adopt(self, record: StoredRecord) -> bool:
        try:
            path = self._store.record_path(record.id)
            header = _read_header(path)
            inspect_record(header, path)
        except Unreachable:
            raise
        except (InvalidFile, UnknownFormat, StoreError, NotFound) as error:
            self._unreadable.add(record.digest)
            log.warning("record not adopted", record=record.id, digest=record.digest, why=error.message)
            return False
        made = datetime.fromisoformat(record.created.replace("Z", "+00:00"))
        _, new = self._index(record, header, who="store", project=DEFAULT_PROJECT, posted_at=made)
        return new

    def _announce(self, digest: str) -> None:
        """Keeps `adopt` from the record until some project has it as a run, and gc from deleting it for an hour."""
        name, until = announcement(digest), datetime.now(UTC) + ANNOUNCED
        with suppress(IntegrityError), self._database.write() as session:
            renewed = update(ClaimRow).where(ClaimRow.assay == name).values(until=until).returning(ClaimRow.assay)
            if session.execute(renewed).one_or_none() is None:
                session.add(ClaimRow(assay=name, holder="runs", until=until))

    def _forget(self, digest: str) -> None:
        with self._database.write() as session:
            session.execute(delete(ClaimRow).where(ClaimRow.assay == announcement(digest)))

    def _index(
        self, stored: StoredRecord, header: RecordHeader, *, who: str, project: str, posted_at: datetime
    ) -> tuple[Run, bool]:
        row = RunRow(
            id=run_id(project, stored.digest),
            project=project,
            digest=stored.digest,
            stored=stored.id,
            problem=header.problem.name,
            problem_digest=header.problem.digest,
            framework=header.framework.name,
            framework_version=header.framework.version,
            strategy=header.strategy,
            layout=str(header.layout),
            dtype=str(header.dtype),
            dtype_profile=f"{header.dtype.parameter}/{header.dtype.gradient}/{header.dtype.reduce}",
            commit=header.source.commit,
            header=_shown(header),
            posted_by=who[:128],
            posted_at=posted_at,
        )
        try:
            with self._database.write() as session:
                session.add(row)
                session.flush()
                session.execute(delete(ClaimRow).where(ClaimRow.assay == announcement(stored.digest)))
                return Run.from_row(row), True
        except IntegrityError:
            known = self._by_digest(project, stored.digest)
            if known is None:
                raise
            self._forget(stored.digest)
            return known, False

    def _by_digest(self, project: str, digest: str) -> Run | None:
        with self._database.read() as session:
            row = session.scalar(select(RunRow).where(RunRow.project == project, RunRow.digest == digest))
        return Run.from_row(row) if row is not None else None


def _read_header(path: Path) -> RecordHeader:
    return parse_header(RecordHeader, open_container(path, "record").document, path)


def announcement(digest: str) -> str:
    """The claim of whoever posts this content just now."""
    return _POSTING + digest.removeprefix("sha256:")[:32]


def _shown(header: RecordHeader) -> dict[str, Any]:
    document = dump_header(header, "record", FORMAT)
    document["parameter_count"] = len(document.pop("parameters"))
    return document
