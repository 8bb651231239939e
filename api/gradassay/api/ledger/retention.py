"""What `gradassay gc` deletes: planned first, and every item looked at again before it goes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum

from sqlalchemy import select
from sqlalchemy.orm import Session

from gradassay.api.database.database import Database
from gradassay.api.database.tables import EntryRow, GoldenRow, ReviewRow, RunRow, VersionRow
from gradassay.api.ledger.removal import remove_run, remove_version
from gradassay.api.ledger.rows import standing_of
from gradassay.api.ledger.standing import Standing, Status
from gradassay.goldens.errors import GradassayError
from gradassay.goldens.store.approval import DEFAULT_CHANNEL
from gradassay.goldens.store.protocol import GoldenStore


class Kind(StrEnum):
    """What can be deleted."""

    RUN = "run"
    VERSION = "version"


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """A run, or a version of a golden, that may go. name: the golden's, or the run's id. version: 0 for a run.

    at: when it was posted or proposed. reason: why nobody misses it. size: of its file in bytes, 0 where that is not known.
    """

    kind: Kind
    name: str
    version: int = 0
    digest: str
    project: str
    at: datetime
    reason: str
    size: int

    @property
    def ref(self) -> str:
        """What it is called on the command line: `run:ID` or `golden:NAME@vN`."""
        return f"run:{self.name}" if self.kind is Kind.RUN else f"golden:{self.name}@v{self.version}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What may go, the oldest first, and how many things stay for which reason. cutoff: what is younger stays."""

    items: tuple[Item, ...]
    kept: Mapping[str, int]
    cutoff: datetime

    @property
    def size(self) -> int:
        """Bytes of all files that may go, as far as they are known."""
        return sum(item.size for item in self.items)


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What became of an item. kept: why it was left after all, "" where it is gone. error: by which that failed."""

    item: Item
    kept: str = ""
    error: GradassayError | None = None


def plan(database: Database, store: GoldenStore, *, older_than: timedelta, now: datetime | None = None) -> Plan:
    """What may be deleted; nothing is.

    Versions that were rejected, or passed over by the approval of a later one, and never those that a channel points to,
    or would point to again after undoing approvals. Runs that nobody reviewed and no remaining version refers to. All of
    them older than `older_than`, a version from its rejection on.
    """
    cutoff = (now or datetime.now(UTC)) - older_than
    runs = {record.digest: record.size for record in store.records()}
    files = {(version.name, version.version): version.size for version in store.goldens()}
    items: list[Item] = []
    kept: Counter[str] = Counter()
    with database.read() as session:
        for version, project, standing in _versions(session):
            why, reason = _judge_version(version, standing, cutoff)
            if why:
                kept[f"versions {why}"] += 1
                continue
            items.append(
                Item(
                    kind=Kind.VERSION,
                    name=version.golden,
                    version=version.version,
                    digest=version.digest,
                    project=project,
                    at=version.proposed_at,
                    reason=reason,
                    size=files.get((version.golden, version.version), 0),
                )
            )
        going = {(item.name, item.version) for item in items}
        referred, reviewed = _referred(session, going), _reviewed(session)
        for run in session.scalars(select(RunRow).order_by(RunRow.number)):
            why = _why_run_stays(run, cutoff, referred, reviewed)
            if why:
                kept[f"runs {why}"] += 1
                continue
            items.append(
                Item(
                    kind=Kind.RUN,
                    name=run.id,
                    digest=run.digest,
                    project=run.project,
                    at=run.posted_at,
                    reason=f"posted before {cutoff:%Y-%m-%d}, nobody reviewed it, no golden refers to it",
                    size=runs.get(run.digest, 0),
                )
            )
    return Plan(items=tuple(sorted(items, key=lambda item: item.at)), kept=dict(kept), cutoff=cutoff)


def carry_out(database: Database, store: GoldenStore, wanted: Plan, *, who: str) -> Iterator[Outcome]:
    """What becomes of each item of the plan, one after the other; what somebody needs by now is left.

    A version's deletion is an entry of the ledger. One that is interrupted is completed by the next.
    """
    going = {(item.name, item.version) for item in wanted.items if item.kind is Kind.VERSION}
    # Runs last: a version that stays after all keeps the runs behind it.
    for item in sorted(wanted.items, key=lambda item: item.kind is Kind.RUN):
        failed: GradassayError | None = None
        try:
            kept = _carry_out(database, store, item, wanted.cutoff, going, who)
        except GradassayError as error:
            kept, failed = error.message, error
        if kept and item.kind is Kind.VERSION:
            going.discard((item.name, item.version))
        yield Outcome(item=item, kept=kept, error=failed)


def _carry_out(
    database: Database, store: GoldenStore, item: Item, cutoff: datetime, going: set[tuple[str, int]], who: str
) -> str:
    if item.kind is Kind.VERSION:

        def judge(version: VersionRow, standing: Standing) -> str:
            return _judge_version(version, standing, cutoff)[0]

        return remove_version(database, store, item.name, item.version, judge, who=who, why=item.reason)

    def stays(session: Session, run: RunRow) -> str:
        return _why_run_stays(run, cutoff, _referred(session, going), _reviewed(session, run.id))

    return remove_run(database, store, item.name, stays)


def _judge_version(version: VersionRow, standing: Standing, cutoff: datetime) -> tuple[str, str]:
    """(why the version stays, why it may go), one of them empty."""
    number = version.version
    if number in standing.reachable():
        return "that a channel points to, or would again", ""
    status = standing.status(number)
    if status is Status.REJECTED:
        rejected = standing.rejected[number]
        return ("rejected not long ago", "") if rejected.at > cutoff else ("", f"{rejected}")
    approved = standing.in_effect(DEFAULT_CHANNEL)
    if status is not Status.PROPOSED or approved is None or (approved.version or 0) < number:
        return "that wait for review", ""
    if version.proposed_at > cutoff or approved.at > cutoff:
        return "passed over not long ago", ""
    return "", f"passed over by v{approved.version}, which was {approved}"


def _why_run_stays(run: RunRow, cutoff: datetime, referred: set[str], reviewed: set[str]) -> str:
    if run.posted_at > cutoff:
        return "posted not long ago"
    if run.id in reviewed:
        return "that were reviewed"
    return "that a golden refers to" if run.digest in referred or run.stored in referred else ""


def _versions(session: Session) -> Iterator[tuple[VersionRow, str, Standing]]:
    for golden in session.scalars(select(GoldenRow).order_by(GoldenRow.name)).all():
        standing = standing_of(session, golden.name)
        for version in session.scalars(select(VersionRow).where(VersionRow.golden == golden.name)).all():
            yield version, golden.project, standing


def _referred(session: Session, going: Iterable[tuple[str, int]]) -> set[str]:
    """Digests and ids of the records behind the versions that stay."""
    rows = session.execute(select(VersionRow.golden, VersionRow.version, VersionRow.facts))
    gone = set(going)
    return {
        str(reference["record"]).removeprefix("run:")
        for name, version, facts in rows
        if (name, version) not in gone
        for reference in facts["references"]
    }


def _reviewed(session: Session, run: str | None = None) -> set[str]:
    """The runs, or whether this one, that a review or an entry of the ledger is about."""
    found: set[str] = set()
    for column in (ReviewRow.run, EntryRow.run):
        query = select(column).distinct().where(column == run if run is not None else column.is_not(None))
        found.update(str(value) for value in session.scalars(query))
    return found
