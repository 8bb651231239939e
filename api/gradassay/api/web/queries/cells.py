"""The newest run of each strategy in each layout, and what the matrix can be narrowed to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import ColumnElement, Select, false, func, select

from gradassay.api.database.database import Database
from gradassay.api.database.tables import RunRow
from gradassay.api.database.text import is_text
from gradassay.api.web.queries.project import within
from gradassay.api.web.queries.verdicts import verdicts
from gradassay.api.web.views.matrix import Newest


@dataclass(frozen=True, slots=True, kw_only=True)
class Choices:
    """What the posted runs offer to choose from, each in reading order; versions are those of the chosen framework."""

    problems: tuple[str, ...]
    dtypes: tuple[str, ...]
    frameworks: tuple[str, ...]
    versions: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Narrowing:
    """Which runs a page is about; what is empty narrows nothing."""

    problem: str = ""
    dtype: str = ""
    framework: str = ""
    version: str = ""

    def conditions(self, project: str) -> tuple[ColumnElement[bool], ...]:
        """As conditions on runs, the project first."""
        pairs = (
            (RunRow.problem, self.problem),
            (RunRow.dtype, self.dtype),
            (RunRow.framework, self.framework),
            (RunRow.framework_version, self.version),
        )
        if not is_text(self.problem, self.dtype, self.framework, self.version):
            return (false(),)
        return (within(RunRow.project, project), *(column == value for column, value in pairs if value))


def settled(database: Database, project: str, asked: Narrowing) -> Narrowing:
    """What was asked with one problem and dtype in any case: those of the newest run that fits."""
    if asked.problem and asked.dtype:
        return asked
    question = select(RunRow.problem, RunRow.dtype).where(*asked.conditions(project))
    with database.read() as session:
        found = session.execute(question.order_by(RunRow.number.desc()).limit(1)).one_or_none()
    if found is None:
        return asked
    return Narrowing(problem=found.problem, dtype=found.dtype, framework=asked.framework, version=asked.version)


def choices(database: Database, project: str, narrowing: Narrowing) -> Choices:
    """What can be chosen, given what has been."""
    everything = (within(RunRow.project, project),)
    of_problem = Narrowing(problem=narrowing.problem).conditions(project)
    of_dtype = Narrowing(problem=narrowing.problem, dtype=narrowing.dtype).conditions(project)
    of_framework = Narrowing(framework=narrowing.framework, problem=narrowing.problem, dtype=narrowing.dtype)
    with database.read() as session:

        def values(question: Select[str]) -> tuple[str, ...]:
            return tuple(sorted(value for value in session.scalars(question.distinct()) if value))

        return Choices(
            problems=values(select(RunRow.problem).where(*everything)),
            dtypes=values(select(RunRow.dtype).where(*of_problem)),
            frameworks=values(select(RunRow.framework).where(*of_dtype)),
            versions=values(select(RunRow.framework_version).where(*of_framework.conditions(project)))
            if narrowing.framework
            else (),
        )


def newest(database: Database, project: str, narrowing: Narrowing) -> Sequence[Newest]:
    """The newest run of each strategy in each layout, with its verdict and how many runs the cell has."""
    grouped = (
        select(func.max(RunRow.number).label("number"), func.count().label("runs"))
        .where(*narrowing.conditions(project))
        .group_by(RunRow.strategy, RunRow.layout)
        .subquery()
    )
    columns = (RunRow.id, RunRow.framework, RunRow.framework_version, RunRow.strategy, RunRow.layout)
    question = select(*columns, grouped.c.runs).join(grouped, RunRow.number == grouped.c.number)
    with database.read() as session:
        found = session.execute(question).all()
        known = verdicts(session, [row.id for row in found])
    return [
        Newest(
            run=row.id,
            framework=row.framework,
            framework_version=row.framework_version,
            strategy=row.strategy,
            layout=row.layout,
            runs=row.runs,
            verdict=known[row.id].verdict if row.id in known else None,
            sentence=known[row.id].sentence if row.id in known else "",
        )
        for row in found
    ]
