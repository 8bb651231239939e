"""The ledger of one service."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import structlog
from sqlalchemy import select
from sqlalchemy.orm import Session

from gradassay.api.auth.caller import EVERY_PROJECT
from gradassay.api.database.database import Database
from gradassay.api.database.tables import ChannelRow, EntryRow, GoldenRow, VersionRow
from gradassay.api.database.text import is_text
from gradassay.api.ledger import deciding, mirror, proposing
from gradassay.api.ledger.deciding import Decision
from gradassay.api.ledger.entry import Action, Entry
from gradassay.api.ledger.rows import entries_of, find_golden, find_version, standing_of
from gradassay.api.ledger.standing import Status, replay
from gradassay.api.ledger.version import Golden, Version
from gradassay.api.operations.metrics import count_decision
from gradassay.api.paging import Page
from gradassay.api.runs.run import DEFAULT_PROJECT
from gradassay.goldens.errors import GradassayError, NotFound, Unreachable
from gradassay.goldens.store.approval import DEFAULT_CHANNEL
from gradassay.goldens.store.protocol import GoldenStore

_log = structlog.get_logger(__name__)


class Ledger:
    """Goldens, their versions, and who decided what about them; the authority on where channels point.

    reviewers: how many different people have to approve a version. The store's channels follow the ledger's.
    """

    def __init__(self, database: Database, store: GoldenStore, *, reviewers: int = 1) -> None:
        self._database = database
        self._store = store
        self._reviewers = reviewers

    def propose(self, path: Path, *, who: str, project: str, why: str = "") -> Version:
        """The version that the golden file at `path` is; the same content twice is one version."""
        return self.post(path, who=who, project=project, why=why)[0]

    def post(
        self, path: Path, *, who: str, project: str, why: str = "", name: str | None = None
    ) -> tuple[Version, bool]:
        """The version as of `propose`, and whether it is new. name: what the golden is believed to be called.

        Raises InvalidFile for a file that is no golden, UsageError for one of another name, NotFound where its name is
        another project's; nothing is kept then.
        """
        said, version, new = proposing.propose(
            self._database, self._store, path, who=who, project=project, why=why, expected=name
        )
        if new:
            count_decision(Action.PROPOSED)
        return self.version(said, version), new

    def decide(
        self,
        name: str,
        version: int,
        decision: Decision,
        *,
        channel: str = DEFAULT_CHANNEL,
        who: str,
        why: str,
        expected_version: int | None = None,
        cause: str = "",
    ) -> Entry:
        """The entry that holds the decision; see `deciding.decide`. Raises StoreError where an approved file is damaged.

        expected_version: what the reviewer believes the channel points to, 0 for nowhere; None: whatever that is.
        """
        if decision is Decision.APPROVE:
            self.version(name, version)
            self._store.golden_path(name, version)
        with self._database.write() as session:
            entry = deciding.decide(
                session,
                name,
                version,
                decision,
                channel=channel,
                who=who,
                why=why,
                expected=expected_version,
                cause=cause,
                reviewers=self._reviewers,
            )
        return self._followed(entry)

    def undo(self, entry: int, *, who: str, why: str = "") -> Entry:
        """The entry that takes the entry of this number back; see `deciding.undo`."""
        with self._database.write() as session:
            undone = deciding.undo(session, entry, who=who, why=why)
        return self._followed(undone)

    def _followed(self, entry: Entry) -> Entry:
        """The entry, once the store's channel was made to follow; where that fails `reconcile` does it later."""
        count_decision(entry.action)
        if entry.channel and entry.previous is not None and entry.action is not Action.ENDORSED:
            try:
                mirror.mirror(self._database, self._store, entry.golden or "", entry.channel)
            except GradassayError as error:
                _log.warning("store does not follow the ledger yet", entry=entry.number, error=error.message)
        return entry

    def goldens(self, project: str) -> list[Golden]:
        """The goldens of the project that have a version, by name; "*": of all projects."""
        with self._database.read() as session:
            query = select(GoldenRow).order_by(GoldenRow.name)
            if project != EVERY_PROJECT:
                query = query.where(GoldenRow.project == project)
            found = (self._golden(session, row) for row in session.scalars(query).all())
            return [golden for golden in found if golden is not None]

    def golden(self, name: str) -> Golden:
        """The golden of this name; raises NotFound."""
        with self._database.read() as session:
            golden = self._golden(session, find_golden(session, name))
        if golden is None:
            raise NotFound(f"golden {name!r} has no version", hint="propose one", golden=name)
        return golden

    def _golden(self, session: Session, row: GoldenRow) -> Golden | None:
        versions = _versions(session, row)
        if not versions:
            return None
        return Golden(
            name=row.name,
            project=row.project,
            channels=_channels(session, row.name),
            versions=len(versions),
            waiting=sum(version.status in (Status.PROPOSED, Status.ENDORSED) for version in versions),
            latest=versions[-1],
        )

    def versions(self, name: str) -> list[Version]:
        """All versions of the golden, oldest first; raises NotFound."""
        with self._database.read() as session:
            return _versions(session, find_golden(session, name))

    def version(self, name: str, version: int) -> Version:
        """This version; raises NotFound."""
        with self._database.read() as session:
            golden = find_golden(session, name)
            row = find_version(session, name, version)
            why = proposing.why_proposed(session, name).get(version, "")
            return Version.from_row(row, golden.project, standing_of(session, name), why)

    def channels(self, name: str) -> dict[str, int]:
        """The version that each channel points to; none for a name that is not known."""
        with self._database.read() as session:
            return _channels(session, name)

    def entry(self, number: int) -> Entry:
        """The entry of this number; raises NotFound."""
        with self._database.read() as session:
            row = session.get(EntryRow, number)
        if row is None:
            raise NotFound(f"the ledger has no entry {number}", hint="GET /api/v1/ledger lists them", entry=number)
        return Entry.from_row(row)

    def entries(
        self,
        project: str,
        *,
        golden: str | None = None,
        action: Action | None = None,
        who: str | None = None,
        before: int | None = None,
        limit: int = 50,
    ) -> Page[Entry]:
        """Entries of the project, newest first; "*": of all projects. before: only those with a lower number."""
        if not is_text(golden or "", who or ""):
            return Page(items=(), next=None)
        query = select(EntryRow).order_by(EntryRow.number.desc()).limit(limit + 1)
        if project != EVERY_PROJECT:
            query = query.where(EntryRow.project == project)
        for column, value in ((EntryRow.golden, golden), (EntryRow.action, action), (EntryRow.who, who)):
            if value is not None:
                query = query.where(column == value)
        if before is not None:
            query = query.where(EntryRow.number < before)
        with self._database.read() as session:
            found = [Entry.from_row(row) for row in session.scalars(query)]
        return Page(items=tuple(found[:limit]), next=found[limit - 1].number if len(found) > limit else None)

    def adopt(self) -> int:
        """How many versions and approvals the ledger now knows that were made in the store directly."""
        listed = self._store.goldens()
        adopted = proposing.adopt_versions(self._database, self._store, listed, DEFAULT_PROJECT)
        names = {name for name, *_ in mirror.differing(self._database, listed)}
        return adopted + sum(self._adopt_approvals(name) for name in sorted(names))

    def _adopt_approvals(self, name: str) -> int:
        try:
            return mirror.adopt_approvals(self._database, self._store, name, reviewers=self._reviewers)
        except NotFound:
            return 0

    def reconcile(self) -> list[str]:
        """What was repaired: channels of the store that did not point where the ledger's do, and what mirrors them.

        Approvals that were made in the store directly are adopted first.
        """
        self.adopt()
        repaired = []
        for name, channel, ours, theirs in mirror.differing(self._database, self._store.goldens()):
            try:
                if mirror.mirror(self._database, self._store, name, channel):
                    repaired.append(mirror.describe(name, channel, ours, theirs))
            except Unreachable:
                raise
            except GradassayError as error:
                _log.warning("not repaired", golden=name, channel=channel, error=error.message)
        repaired += self._store.repair()
        for sentence in repaired:
            _log.warning("repaired", what=sentence)
        return repaired


def _versions(session: Session, row: GoldenRow) -> list[Version]:
    standing, why = replay(entries_of(session, row.name)), proposing.why_proposed(session, row.name)
    query = select(VersionRow).where(VersionRow.golden == row.name).order_by(VersionRow.version)
    return [
        Version.from_row(known, row.project, standing, why.get(known.version, "")) for known in session.scalars(query)
    ]


def _channels(session: Session, name: str) -> dict[str, int]:
    query = select(ChannelRow.channel, ChannelRow.version).where(ChannelRow.golden == name, ChannelRow.version > 0)
    pointing: Sequence[tuple[str, int]] = [(channel, version) for channel, version in session.execute(query)]
    return dict(pointing)
