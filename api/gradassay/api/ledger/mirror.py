"""The store's channels as a mirror of the ledger's, and what was approved in the store directly."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import datetime

import structlog
from sqlalchemy import select

from gradassay.api.database.database import Database
from gradassay.api.database.tables import ChannelRow
from gradassay.api.ledger.entry import Action, Entry
from gradassay.api.ledger.rows import append, entries_of, find_golden, find_version, move, standing_of
from gradassay.api.ledger.standing import replay
from gradassay.goldens.errors import Conflict, NotFound
from gradassay.goldens.store.approval import Approval, version_text
from gradassay.goldens.store.protocol import GoldenStore, GoldenVersion

_log = structlog.get_logger(__name__)
_ATTEMPTS = 5
_MARK = re.compile(r"\(ledger entry (\d{1,18})\)$")


def mirror(database: Database, store: GoldenStore, name: str, channel: str) -> bool:
    """Whether the store's channel had to be changed to point where the ledger's does.

    Replicas that mirror at once agree in the end: each compares and sets, and looks again at what the ledger says.
    """
    for _ in range(_ATTEMPTS):
        with database.read() as session:
            latest = standing_of(session, name).latest.get(channel)
        wanted = (latest.version or 0) if latest else 0
        present = _pointed(store.goldens(name)).get((name, channel), 0)
        if latest is None or wanted == present:
            return False
        said = f"{latest.why or latest.action} (ledger entry {latest.number})"
        try:
            if wanted:
                store.approve(name, wanted, channel=channel, who=latest.who, why=said, expected=present)
            else:
                store.withdraw(name, channel=channel, who=latest.who, why=said, expected=present)
        except Conflict:
            continue
        with database.read() as session:
            if standing_of(session, name).latest.get(channel) == latest:
                return True
    raise Conflict(f"golden {name}: {channel} was changed in the store {_ATTEMPTS} times in a row", golden=name)


def differing(database: Database, listed: Sequence[GoldenVersion]) -> list[tuple[str, str, int, int]]:
    """(name, channel, the ledger's version, the store's version) wherever they differ; 0 is none."""
    with database.read() as session:
        rows = session.execute(select(ChannelRow.golden, ChannelRow.channel, ChannelRow.version))
        ours = {(golden, channel): version for golden, channel, version in rows if version}
    theirs = _pointed(listed)
    return [
        (*key, ours.get(key, 0), theirs.get(key, 0))
        for key in sorted(ours.keys() | theirs.keys())
        if ours.get(key, 0) != theirs.get(key, 0)
    ]


def adopt_approvals(database: Database, store: GoldenStore, name: str, *, reviewers: int) -> int:
    """How many approvals that were made in the store directly the ledger now knows.

    All of a channel that the ledger has no entry of; else those that came after its last one, unless two people have to
    approve: then the ledger's word stands, and the store's channel is put back.
    """
    return sum(_adopt(database, name, approval, reviewers) for approval in store.approvals(name))


def _adopt(database: Database, name: str, approval: Approval, reviewers: int) -> bool:
    at, channel = datetime.fromisoformat(approval.when), approval.channel
    with database.write() as session:
        golden = find_golden(session, name, lock=True)
        entries = entries_of(session, name)
        if _is_ours(approval, entries):
            return False
        standing = replay(entries)
        latest = standing.latest.get(channel)
        if latest and (at <= latest.at or (reviewers > 1 and latest.action is not Action.ADOPTED)):
            return False
        if approval.version:
            try:
                find_version(session, name, approval.version)
            except NotFound as error:
                _log.warning("approval not adopted", golden=name, version=approval.version, error=error.message)
                return False
        present = standing.points(channel)
        said = {"who": approval.who, "why": approval.why, "project": golden.project, "golden": name}
        moved = {"version": approval.version, "channel": channel, "previous": present}
        entry = append(session, Action.ADOPTED, at=at, **said, **moved)
        move(session, name, channel, expected=present, version=approval.version, entry=entry.number)
    return True


def _is_ours(approval: Approval, entries: Sequence[Entry]) -> bool:
    """Whether the approval mirrors an entry of this ledger."""
    match = _MARK.search(approval.why)
    return match is not None and any(
        (entry.number, entry.channel, entry.version or 0) == (int(match[1]), approval.channel, approval.version)
        for entry in entries
    )


def _pointed(listed: Sequence[GoldenVersion]) -> Mapping[tuple[str, str], int]:
    return {(version.name, channel): version.version for version in listed for channel in version.channels}


def describe(name: str, channel: str, ours: int, theirs: int) -> str:
    """What was repaired, in a sentence."""
    return (
        f"golden {name}: {channel} pointed to {version_text(theirs or None)} in the store, "
        f"the ledger says {version_text(ours or None)}"
    )
