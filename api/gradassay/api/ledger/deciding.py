"""Decisions about versions: of two that exclude each other the first counts, and the second is told who made it."""

from __future__ import annotations

from enum import StrEnum
from typing import Any, NoReturn

from sqlalchemy.orm import Session

from gradassay.api.database.tables import EntryRow
from gradassay.api.ledger.entry import Action, Entry
from gradassay.api.ledger.rows import append, check_text, entries_of, find_golden, find_version, move, standing_of
from gradassay.api.ledger.standing import Standing, replay
from gradassay.goldens.errors import Conflict, NotFound, UsageError
from gradassay.goldens.store.approval import check_request, version_text


class Decision(StrEnum):
    """What a reviewer says of a version."""

    APPROVE = "approve"
    REJECT = "reject"


def decide(
    session: Session,
    name: str,
    version: int,
    decision: Decision,
    *,
    channel: str,
    who: str,
    why: str,
    expected: int | None,
    cause: str,
    reviewers: int,
) -> Entry:
    """The entry that holds the decision: approved, endorsed where a second reviewer has to approve as well, or rejected.

    expected: the version that the reviewer believes `channel` points to, 0 for none, None for whatever it is.
    Raises NotFound, UsageError without who or why, Conflict where it is another or was decided before.
    """
    if decision is Decision.REJECT and not why.strip():
        raise UsageError("a rejection must say why", hint="whoever proposed the version wants to know what to change")
    check_request(channel, who, why)
    check_text(why=why, cause=cause)
    golden = find_golden(session, name, lock=True)
    find_version(session, name, version)
    standing = standing_of(session, name)
    _check_expected(standing, name, channel, expected)
    _check_undecided(standing, name, version, channel, decision)
    said: dict[str, Any] = {"who": who, "why": why, "cause": cause, "project": golden.project, "golden": name}
    if decision is Decision.REJECT:
        return append(session, Action.REJECTED, version=version, **said)
    present = standing.points(channel)
    if not _is_enough(standing, name, version, channel, who, reviewers):
        return append(session, Action.ENDORSED, version=version, channel=channel, previous=present, **said)
    entry = append(session, Action.APPROVED, version=version, channel=channel, previous=present, **said)
    move(session, name, channel, expected=present, version=version, entry=entry.number)
    if present:
        replaced = {**said, "why": f"replaced by v{version}: {why}"}
        append(session, Action.SUPERSEDED, version=present, channel=channel, **replaced)
    return entry


def undo(session: Session, number: int, *, who: str, why: str) -> Entry:
    """The entry that takes entry `number` back: an approval, where its channel still stands as it left it, a first
    approval or a rejection.

    Raises NotFound, UsageError for entries of another kind, Conflict where it was undone or something came after it.
    """
    check_text(why=why)
    row = session.get(EntryRow, number)
    if row is None:
        raise NotFound(f"the ledger has no entry {number}", hint="GET /api/v1/ledger lists them", entry=number)
    name, entry = row.golden or "", Entry.from_row(row)
    undoable = entry.moves or entry.action in (Action.REJECTED, Action.ENDORSED)
    if not undoable:
        raise UsageError(
            f"entry {number} ({entry}) cannot be undone",
            hint="approvals and rejections can; after an undo, decide anew",
            entry=number,
        )
    find_golden(session, name, lock=True)
    entries = entries_of(session, name)
    standing = replay(entries)
    for later in entries:
        if later.undoes == number:
            _refuse(f"entry {number} is {later}", entry, name)
    said: dict[str, Any] = {"who": who, "why": why, "project": entry.project, "golden": name, "undoes": number}
    channel, version = entry.channel or "", entry.version or 0
    if not entry.moves:
        rejected = entry.action is Action.REJECTED
        if entry not in (
            (standing.rejected.get(version),) if rejected else standing.endorsed.get((channel, version), ())
        ):
            _refuse(f"entry {number} no longer counts: {_latest(standing, channel)}", entry, name)
        return append(session, Action.UNDONE, version=version, channel=entry.channel, **said)
    if standing.in_effect(channel) != entry:
        _refuse(f"entry {number} is no longer what {channel} stands on: {_latest(standing, channel)}", entry, name)
    below = standing.moves[channel][:-1]
    target = (below[-1].version or 0) if below else 0
    if target in standing.rejected:
        _refuse(f"v{target}, which {channel} would point to again, was {standing.rejected[target]}", entry, name)
    undone = append(session, Action.UNDONE, version=target, channel=channel, previous=version, **said)
    move(session, name, channel, expected=version, version=target, entry=below[-1].number if below else 0)
    return undone


def _check_expected(standing: Standing, name: str, channel: str, expected: int | None) -> None:
    present = standing.points(channel)
    if expected is None or expected == present:
        return
    raise Conflict(
        f"golden {name}: {channel} points to {version_text(present or None)}, not to {version_text(expected or None)}: "
        f"{_latest(standing, channel)}",
        hint="look at what changed, then decide again",
        golden=name,
        channel=channel,
        expected=expected,
        present=present,
    )


def _check_undecided(standing: Standing, name: str, version: int, channel: str, decision: Decision) -> None:
    """Raises Conflict where the version was rejected, or stands approved in a channel that the decision is about."""
    facts: dict[str, object] = {"golden": name, "version": version}
    rejected = standing.rejected.get(version)
    if rejected is not None:
        raise Conflict(
            f"golden {name} v{version} was {rejected}",
            hint=f"undo that rejection first (ledger entry {rejected.number})",
            entry=rejected.number,
            **facts,
        )
    approved = standing.channels_of(version)
    for known in approved if decision is Decision.REJECT else {channel} & set(approved):
        entry = standing.in_effect(known)
        assert entry is not None
        raise Conflict(
            f"golden {name} v{version} is {known} already: {_latest(standing, known)}",
            hint=f"undo that approval first (ledger entry {entry.number})",
            entry=entry.number,
            **facts,
        )


def _is_enough(standing: Standing, name: str, version: int, channel: str, who: str, reviewers: int) -> bool:
    """Whether this approval is the last that is needed; raises Conflict where the same person approves again."""
    given = standing.endorsed.get((channel, version), ())
    for entry in given:
        if entry.who == who:
            raise Conflict(
                f"golden {name} v{version} was {entry}; another person has to approve it as well",
                hint=f"{reviewers} people must approve (GRADASSAY_REVIEWERS)",
                golden=name,
                version=version,
                entry=entry.number,
            )
    return len(given) + 1 >= reviewers


def _latest(standing: Standing, channel: str) -> str:
    entry = standing.latest.get(channel)
    return f"entry {entry.number}, {entry}" if entry else "nothing was approved yet"


def _refuse(message: str, entry: Entry, name: str) -> NoReturn:
    raise Conflict(
        f"golden {name}: {message}",
        hint="look at the ledger, then decide anew",
        golden=name,
        entry=entry.number,
    )
