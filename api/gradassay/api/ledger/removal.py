"""Deleting a version or a run: looked at again where nobody else can change it, its file before its row."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import delete, or_, select
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from gradassay.api.database.database import Database
from gradassay.api.database.tables import AssayRow, ClaimRow, RunRow, VersionRow
from gradassay.api.ledger.entry import Action
from gradassay.api.ledger.rows import append, find_golden, standing_of
from gradassay.api.ledger.standing import Standing
from gradassay.api.runs.runs import ANNOUNCED, announcement
from gradassay.goldens.errors import NotFound
from gradassay.goldens.store.protocol import GoldenStore

POSTED_AGAIN = "being posted again just now"


def remove_version(
    database: Database,
    store: GoldenStore,
    name: str,
    version: int,
    stays: Callable[[VersionRow, Standing], str],
    *,
    who: str,
    why: str,
) -> str:
    """Why the version was left, as `stays` says while nobody can decide about it; "" where it is gone."""
    with database.write() as session:
        golden = find_golden(session, name, lock=True)
        row = session.get(VersionRow, (name, version))
        if row is None:
            return ""
        kept = stays(row, standing_of(session, name))
        if kept:
            return kept
        said: dict[str, Any] = {"project": golden.project, "golden": name, "version": version, "who": who, "why": why}
        append(session, Action.DELETED, **said)
        session.execute(delete(AssayRow).where(AssayRow.golden == name, AssayRow.version == version))
        session.delete(row)
        session.flush()
        with suppress(NotFound):
            store.delete_golden(name, version)
    return ""


def remove_run(database: Database, store: GoldenStore, run: str, stays: Callable[[Session, RunRow], str]) -> str:
    """Why the run was left, as `stays` says, or because somebody posts it just now; "" where it is gone.

    Its record goes with the last run of its content: projects that posted the same share one.
    """
    try:
        with database.write() as session:
            row = session.scalar(select(RunRow).where(RunRow.id == run).with_for_update())
            if row is None:
                return ""
            # Whoever posts the same content announces that first, and now waits until this is done.
            claim = _claimed(session, announcement(row.digest))
            if claim is None:
                return POSTED_AGAIN
            kept = stays(session, row)
            if kept:
                session.delete(claim)
                return kept
            session.execute(delete(AssayRow).where(or_(AssayRow.run == run, AssayRow.other_run == run)))
            digest, stored = row.digest, row.stored
            session.delete(row)
            session.flush()
            if session.scalar(select(RunRow.id).where(RunRow.digest == digest).limit(1)) is None:
                with suppress(NotFound):
                    store.delete_record(stored)
            session.delete(claim)
    except IntegrityError:
        return POSTED_AGAIN
    return ""


def _claimed(session: Session, name: str) -> ClaimRow | None:
    """The claim, also where whoever announced the record died before it was a run; None where it is being posted.

    Raises IntegrityError where it came to be posted meanwhile.
    """
    now = datetime.now(UTC)
    claim = session.get(ClaimRow, name, with_for_update=True)
    if claim is None:
        claim = ClaimRow(assay=name)
        session.add(claim)
    elif claim.until > now:
        return None
    claim.holder, claim.until = "gc", now + ANNOUNCED
    session.flush()
    return claim
