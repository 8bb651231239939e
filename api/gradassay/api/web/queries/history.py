"""The newest runs with their assays, for the history of a parameter."""

from __future__ import annotations

import json
import zlib
from collections.abc import Sequence

from sqlalchemy import select

from gradassay.api.database.database import Database
from gradassay.api.database.tables import RunRow
from gradassay.api.web.queries.cells import Narrowing
from gradassay.api.web.queries.verdicts import verdicts
from gradassay.api.web.views.history import Judged

RUNS = 100


def judged_runs(database: Database, project: str, narrowing: Narrowing, *, limit: int = RUNS) -> Sequence[Judged]:
    """The newest runs that have an assay against a golden, at most `limit`, oldest first."""
    question = select(RunRow).where(*narrowing.conditions(project)).order_by(RunRow.number.desc()).limit(limit)
    with database.read() as session:
        runs = session.scalars(question).all()
        known = verdicts(session, [run.id for run in runs], documents=True)
    return [
        Judged(
            run=run.id,
            commit=run.commit,
            framework=run.framework,
            framework_version=run.framework_version,
            strategy=run.strategy,
            layout=run.layout,
            posted_at=run.posted_at,
            against=f"v{known[run.id].version}",
            document=json.loads(zlib.decompress(known[run.id].document)),
        )
        for run in reversed(runs)
        if run.id in known
    ]
