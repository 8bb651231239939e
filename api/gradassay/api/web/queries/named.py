"""Runs by their ids."""

from __future__ import annotations

from collections.abc import Collection

from sqlalchemy import select

from gradassay.api.database.database import Database
from gradassay.api.database.tables import RunRow
from gradassay.api.runs.run import Run

AT_ONCE = 500


def named_runs(database: Database, ids: Collection[str]) -> dict[str, Run]:
    """Those that exist."""
    wanted = sorted(set(ids))
    with database.read() as session:
        return {
            row.id: Run.from_row(row)
            for first in range(0, len(wanted), AT_ONCE)
            for row in session.scalars(select(RunRow).where(RunRow.id.in_(wanted[first : first + AT_ONCE])))
        }
