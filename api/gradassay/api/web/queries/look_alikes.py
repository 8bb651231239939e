"""Which runs look like which public fault."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sqlalchemy import Text, cast, func, select
from sqlalchemy.orm import Session

from gradassay.api.database.database import Database
from gradassay.api.database.tables import AssayRow, FindingRow, RunRow
from gradassay.api.web.queries.project import within

RUNS = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class LookAlike:
    """A run one of whose findings has a fault's signature."""

    run: str
    strategy: str
    layout: str
    framework: str
    formula: str


def counts(database: Database, project: str) -> Mapping[str, int]:
    """By id of a fault, how many runs look like it; faults that none looks like are left out."""
    with database.read() as session:
        sets = _sets(session, project)
        return {
            fault: session.scalar(
                select(func.count(AssayRow.run.distinct()))
                .join(FindingRow, FindingRow.assay == AssayRow.id)
                .where(within(AssayRow.project, project), cast(FindingRow.known_faults, Text).in_(texts))
            )
            or 0
            for fault, texts in sets.items()
        }


def look_alikes(database: Database, project: str, fault: str) -> Sequence[LookAlike]:
    """The newest runs that look like the fault, at most 50."""
    with database.read() as session:
        texts = _sets(session, project).get(fault, [])
        columns = (RunRow.id, RunRow.strategy, RunRow.layout, RunRow.framework, RunRow.framework_version)
        question = (
            select(*columns, func.min(FindingRow.formula).label("formula"))
            .join(AssayRow, AssayRow.run == RunRow.id)
            .join(FindingRow, FindingRow.assay == AssayRow.id)
            .where(within(RunRow.project, project), cast(FindingRow.known_faults, Text).in_(texts))
            .group_by(*columns, RunRow.number)
            .order_by(RunRow.number.desc())
            .limit(RUNS)
        )
        return [
            LookAlike(
                run=row.id,
                strategy=row.strategy,
                layout=row.layout,
                framework=f"{row.framework} {row.framework_version}".strip(),
                formula=row.formula,
            )
            for row in session.execute(question)
        ]


def _sets(session: Session, project: str) -> Mapping[str, list[str]]:
    """By fault, the distinct contents of `known_faults` that name it: few, however many findings there are."""
    text = cast(FindingRow.known_faults, Text)
    question = (
        select(text).distinct().join(AssayRow, AssayRow.id == FindingRow.assay).where(within(AssayRow.project, project))
    )
    found: dict[str, list[str]] = {}
    for one in session.scalars(question):
        for fault in json.loads(one):
            found.setdefault(fault, []).append(one)
    return found
