"""Proposing a version: the file goes into the store before any row names it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import structlog
from sqlalchemy import select
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from gradassay.api.database.database import Database
from gradassay.api.database.tables import EntryRow, GoldenRow, VersionRow
from gradassay.api.ledger.entry import Action
from gradassay.api.ledger.rows import append, check_text, find_golden
from gradassay.api.runs.inspection import inspect_golden
from gradassay.api.runs.run import DEFAULT_PROJECT
from gradassay.goldens.container import invalid
from gradassay.goldens.errors import InvalidFile, NotFound, StoreError, UnknownFormat, Unreachable, UsageError
from gradassay.goldens.golden import Golden, read_golden
from gradassay.goldens.report.golden import golden_facts
from gradassay.goldens.store import names
from gradassay.goldens.store.protocol import GoldenStore, GoldenVersion

_log = structlog.get_logger(__name__)

STORE = "the store"
"""Who proposed a version that was found in the store."""


def propose(
    database: Database, store: GoldenStore, path: Path, *, who: str, project: str, why: str, expected: str | None
) -> tuple[str, int, bool]:
    """Name and number of the version that the golden file at `path` now is, and whether it is new to the ledger.

    Raises InvalidFile for a file that is no golden, UsageError where its name is not the expected one, NotFound where it
    is another project's; nothing is kept then.
    """
    check_text(why=why)
    golden = _read(path)
    if expected not in (None, golden.name):
        raise UsageError(
            f"the file is a version of golden {golden.name!r}, not of {str(expected)[:200]!r}",
            hint=f"propose it as that: POST /api/v1/goldens/{golden.name}/versions",
            golden=golden.name,
        )
    facts = golden_facts(golden)
    _claim(database, store, golden.name, project)
    stored = store.put_golden(path)
    with database.write() as session:
        owner = find_golden(session, stored.name, lock=True)
        row = session.get(VersionRow, (stored.name, stored.version))
        if row is not None and row.proposed_by != STORE:
            return stored.name, stored.version, False
        at = datetime.now(UTC)
        if row is None:
            _add(session, stored, facts, who, at)
        else:
            # It was found in the store before whoever put it there came to say so.
            row.proposed_by, row.proposed_at = who, at
        said = {"project": owner.project, "golden": stored.name, "version": stored.version, "why": why}
        append(session, Action.PROPOSED, at=at, who=who, **said)
    return stored.name, stored.version, True


def _claim(database: Database, store: GoldenStore, name: str, project: str) -> None:
    with database.read() as session:
        known = session.get(GoldenRow, name) is not None
    if not known:
        adopt_versions(database, store, store.goldens(name), DEFAULT_PROJECT)
    if owner_of(database, name, project) != project:
        raise NotFound(
            f"golden {name!r} cannot be proposed in project {project!r}",
            hint="the name is taken in another project; give the problem a name of its own",
            golden=name,
        )


def owner_of(database: Database, name: str, project: str) -> str:
    """The project that the name of a golden belongs to: `project` now, if it was nobody's before."""
    try:
        with database.write() as session:
            row = session.get(GoldenRow, name)
            if row is None:
                row = GoldenRow(name=name, project=project)
                session.add(row)
                session.flush()
            return row.project
    except IntegrityError:
        with database.read() as session:
            return find_golden(session, name).project


def adopt_versions(database: Database, store: GoldenStore, listed: Sequence[GoldenVersion], project: str) -> int:
    """How many of the store's versions the ledger did not know and now does; names that are nobody's go to `project`.

    Versions whose files are damaged are left out, and the log says so.
    """
    with database.read() as session:
        known = {
            (golden, version) for golden, version in session.execute(select(VersionRow.golden, VersionRow.version))
        }
    adopted = 0
    for stored in listed:
        if (stored.name, stored.version) in known:
            continue
        try:
            path = store.golden_path(stored.name, stored.version)
            facts = golden_facts(_read(path))
        except Unreachable:
            raise
        except (InvalidFile, UnknownFormat, StoreError) as error:
            _log.warning("version not adopted", golden=stored.name, version=stored.version, error=error.message)
            continue
        adopted += _adopt_version(database, stored, facts, project)
    return adopted


def _adopt_version(database: Database, stored: GoldenVersion, facts: dict[str, Any], project: str) -> bool:
    owner = owner_of(database, stored.name, project)
    at = datetime.fromisoformat(stored.created)
    with database.write() as session:
        find_golden(session, stored.name, lock=True)
        if session.get(VersionRow, (stored.name, stored.version)) is not None:
            return False
        _add(session, stored, facts, STORE, at)
        said = {"project": owner, "golden": stored.name, "version": stored.version}
        append(session, Action.ADOPTED, at=at, who=STORE, why="found in the store", **said)
    return True


def _read(path: Path) -> Golden:
    """The golden of a file; raises InvalidFile also for a name that cannot be shown, or kept in every database."""
    golden = read_golden(path)
    if not golden.name.isprintable():
        invalid(path, "problem.name", "printable characters", repr(golden.name)[:200])
    names.encode(golden.name)
    inspect_golden(golden.header, path)
    return golden


def _add(session: Session, stored: GoldenVersion, facts: dict[str, Any], who: str, at: datetime) -> None:
    session.add(
        VersionRow(
            golden=stored.name,
            version=stored.version,
            digest=stored.digest,
            facts=facts,
            drift=None,
            proposed_at=at,
            proposed_by=who,
        )
    )


def why_proposed(session: Session, name: str) -> dict[int, str]:
    """By version of the golden, why it was proposed."""
    query = select(EntryRow.version, EntryRow.why).where(EntryRow.golden == name, EntryRow.action == Action.PROPOSED)
    return {version: why for version, why in session.execute(query) if version is not None}
