"""What runs can be narrowed to."""

from __future__ import annotations

from sqlalchemy import select

from gradassay.api.database.database import Database
from gradassay.api.database.tables import RunRow
from gradassay.api.web.queries.project import within


def offered(database: Database, project: str) -> dict[str, tuple[str, ...]]:
    """By the name of a filter, the values that some run of the project has."""
    with database.read() as session:
        return {
            column.key: tuple(sorted(session.scalars(select(column).where(within(RunRow.project, project)).distinct())))
            for column in (RunRow.problem, RunRow.dtype, RunRow.strategy, RunRow.framework)
        }
