"""Assays in the database: written once, read by what they are a function of."""

from __future__ import annotations

import zlib
from datetime import UTC, datetime

from sqlalchemy import delete, select
from sqlalchemy.exc import IntegrityError

from gradassay.api.database.database import Database
from gradassay.api.database.tables import AssayRow, ClaimRow, FindingRow
from gradassay.api.judging.judged import Judged, Question
from gradassay.api.judging.law import law_id
from gradassay.goldens.assay.result import Assay
from gradassay.goldens.report.json import dumps, to_json


def recall(database: Database, assay: str) -> Judged | None:
    """The assay of this id where it has been computed."""
    with database.read() as session:
        row = session.get(AssayRow, assay)
        return Judged.from_row(row) if row is not None else None


def recall_of_run(database: Database, run: str) -> list[Judged]:
    """All assays of the run, newest first."""
    query = select(AssayRow).where(AssayRow.run == run).order_by(AssayRow.computed_at.desc(), AssayRow.id)
    with database.read() as session:
        return [Judged.from_row(row) for row in session.scalars(query)]


def remember(database: Database, question: Question, assay: Assay, *, holder: str) -> None:
    """Keeps the assay with its findings, and ends the holder's claim; one that is known already stays as it is."""
    row = AssayRow(
        id=question.id,
        project=question.run.project,
        run=question.run.id,
        golden=question.golden,
        version=question.version,
        other_run=question.other.id if question.other else None,
        verdict=str(assay.verdict),
        sentence=assay.sentence,
        document=zlib.compress(dumps(to_json(assay)).encode()),
        computed_at=datetime.now(UTC),
    )
    findings = [
        FindingRow(
            assay=question.id,
            position=position,
            law=law_id(finding.families, finding.law.pattern, finding.law.formula),
            families=list(finding.families),
            pattern=str(finding.law.pattern),
            formula=finding.law.formula,
            count=finding.count,
            of=finding.of,
            known_faults=list(finding.known_faults),
            parameters=list(finding.parameters),
        )
        for position, finding in enumerate(assay.findings)
    ]
    claim = delete(ClaimRow).where(ClaimRow.assay == question.id, ClaimRow.holder == holder)
    try:
        with database.write() as session:
            session.execute(claim)
            session.add(row)
            session.flush()
            session.add_all(findings)
    except IntegrityError:
        if recall(database, question.id) is None:
            raise
        with database.write() as session:
            session.execute(claim)
