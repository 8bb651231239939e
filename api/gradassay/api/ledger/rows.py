"""The ledger's rows within one transaction."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from sqlalchemy import select, update
from sqlalchemy.orm import Session

from gradassay.api.database.tables import ChannelRow, EntryRow, GoldenRow, VersionRow
from gradassay.api.database.text import is_text
from gradassay.api.ledger.entry import Action, Entry
from gradassay.api.ledger.standing import Standing, replay
from gradassay.goldens.errors import Conflict, NotFound, UsageError
from gradassay.goldens.store.approval import version_text


def find_golden(session: Session, name: str, *, lock: bool = False) -> GoldenRow:
    """The row of this name; with lock, nobody else decides about the golden until the transaction ends.

    Raises NotFound.
    """
    query = select(GoldenRow).where(GoldenRow.name == name)
    # What is no text is no golden's name, and none that a database can be asked for.
    row = None if not is_text(name) else session.scalar(query.with_for_update() if lock else query)
    if row is None:
        raise NotFound(f"golden {name[:200]!r} is not known", hint="GET /api/v1/goldens lists them", golden=name[:200])
    return row


def find_version(session: Session, name: str, version: int) -> VersionRow:
    """The row of this version; raises NotFound with the versions that there are."""
    row = session.get(VersionRow, (name, version))
    if row is None:
        known = session.scalars(
            select(VersionRow.version).where(VersionRow.golden == name).order_by(VersionRow.version)
        )
        raise NotFound(
            f"golden {name} has no v{version}",
            hint=f"its versions: {', '.join(map(version_text, known)) or 'none'}",
            golden=name,
            version=version,
        )
    return row


def entries_of(session: Session, name: str) -> list[Entry]:
    """All entries of a golden, oldest first."""
    query = select(EntryRow).where(EntryRow.golden == name).order_by(EntryRow.number)
    return [Entry.from_row(row) for row in session.scalars(query)]


def standing_of(session: Session, name: str) -> Standing:
    """What the golden's entries come to."""
    return replay(entries_of(session, name))


def check_text(**said: str) -> None:
    """Raises UsageError for text that no database keeps: with a NUL, or with half a character."""
    for name, text in said.items():
        if not is_text(text):
            raise UsageError(f"{name} {text[:80]!a} is no text", hint="leave out NULs and lone surrogates")


def append(session: Session, action: Action, *, at: datetime | None = None, **values: Any) -> Entry:
    """Adds an entry; at: now where it is not given."""
    row = EntryRow(action=str(action), at=at or datetime.now(UTC), **values)
    session.add(row)
    session.flush()
    return Entry.from_row(row)


def move(session: Session, name: str, channel: str, *, expected: int, version: int, entry: int) -> None:
    """Points the channel at `version` if it points to `expected` (0: nowhere); entry: the approval that is in effect then.

    Raises Conflict where it points elsewhere.
    """
    if session.get(ChannelRow, (name, channel)) is None:
        session.add(ChannelRow(golden=name, channel=channel, version=0, entry=0))
        session.flush()
    query = (
        update(ChannelRow)
        .where(ChannelRow.golden == name, ChannelRow.channel == channel, ChannelRow.version == expected)
        .values(version=version, entry=entry)
        .returning(ChannelRow.version)
        .execution_options(synchronize_session=False)
    )
    if session.execute(query).one_or_none() is None:
        raise Conflict(
            f"golden {name}: {channel} no longer points to {version_text(expected or None)}",
            hint="look at what changed, then decide again",
            golden=name,
            channel=channel,
        )
