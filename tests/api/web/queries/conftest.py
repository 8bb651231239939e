"""A database with a few runs, assays and findings, written row by row."""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from gradassay.api.database.database import Database
from gradassay.api.database.migrate import upgrade
from gradassay.api.database.tables import AssayRow, ChannelRow, FindingRow, GoldenRow, RunRow

NOON = datetime(2026, 11, 30, 12, tzinfo=UTC)


class Seeded:
    """Adds rows; every run and assay is a minute younger than the one before."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self._minutes = 0

    def run(self, name: str, **changes: Any) -> str:
        """A run of this id."""
        self._minutes += 1
        facts: dict[str, Any] = {
            "id": name,
            "project": "default",
            "digest": f"sha256:{name}",
            "stored": name,
            "problem": "toy",
            "problem_digest": "sha256:toy",
            "framework": "torch",
            "framework_version": "2.9",
            "strategy": "ddp",
            "layout": "dp2",
            "dtype": "float32",
            "dtype_profile": "float32/float32/float32",
            "commit": f"c0ffee{name}",
            "header": {},
            "posted_by": "ci",
            "posted_at": NOON + timedelta(minutes=self._minutes),
        }
        with self.database.write() as session:
            session.add(RunRow(**(facts | changes)))
        return name

    def assay(
        self,
        run: str,
        verdict: str,
        *,
        version: int = 1,
        known_faults: tuple[str, ...] = (),
        parameters: tuple[dict[str, Any], ...] = (),
        project: str = "default",
    ) -> None:
        """An assay of the run, with one finding where it diverges."""
        self._minutes += 1
        number = f"{run}-v{version}"
        with self.database.write() as session:
            session.add(
                AssayRow(
                    id=number,
                    project=project,
                    run=run,
                    golden="toy.float32",
                    version=version,
                    verdict=verdict,
                    sentence=f"{run} {verdict}s",
                    document=zlib.compress(json.dumps({"parameters": list(parameters)}).encode()),
                    computed_at=NOON + timedelta(minutes=self._minutes),
                )
            )
            session.flush()
            if verdict == "diverge":
                session.add(
                    FindingRow(
                        assay=number,
                        position=0,
                        law="law",
                        families=["expert"],
                        pattern="uniform",
                        formula="w[r,m] = ep",
                        count=2,
                        of=2,
                        known_faults=list(known_faults),
                        parameters=["expert.0.weight"],
                    )
                )

    def approve(self, version: int) -> None:
        """Points the channel at the version."""
        with self.database.write() as session:
            session.merge(GoldenRow(name="toy.float32", project="default"))
            session.flush()
            session.merge(ChannelRow(golden="toy.float32", channel="approved", version=version, entry=1))


@pytest.fixture
def seeded(tmp_path: Path) -> Iterator[Seeded]:
    """An empty database to add to."""
    database = Database(f"sqlite:///{tmp_path}/service.db")
    upgrade(database)
    yield Seeded(database)
    database.close()
