"""Goldens and their versions as the ledger knows them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from gradassay.api.database.tables import VersionRow
from gradassay.api.ledger.entry import Entry
from gradassay.api.ledger.standing import Standing, Status


@dataclass(frozen=True, slots=True, kw_only=True)
class Version:
    """One immutable version of a golden, and what became of it.

    facts: what the file says, see gradassay.goldens.report.golden.golden_facts. drift: how it differs from what was
    approved when it was proposed, None where that was not computed (yet). approved_in: by channel, the number of its
    last approval that nobody undid. endorsed: approvals that wait for a second. rejected: the rejection in effect.
    """

    name: str
    project: str
    version: int
    digest: str
    status: Status
    channels: tuple[str, ...]
    facts: dict[str, Any] = field(repr=False)
    drift: dict[str, Any] | None = field(repr=False)
    proposed_at: datetime
    proposed_by: str
    why: str
    approved_in: Mapping[str, int]
    endorsed: tuple[Entry, ...]
    rejected: Entry | None

    @classmethod
    def from_row(cls, row: VersionRow, project: str, standing: Standing, why: str) -> Version:
        """The version of a row of the database, in the state that its golden's entries lead to."""
        return cls(
            name=row.golden,
            project=project,
            version=row.version,
            digest=row.digest,
            status=standing.status(row.version),
            channels=standing.channels_of(row.version),
            facts=row.facts,
            drift=row.drift,
            proposed_at=row.proposed_at,
            proposed_by=row.proposed_by,
            why=why,
            approved_in=standing.approved_in(row.version),
            endorsed=standing.endorsements(row.version),
            rejected=standing.rejected.get(row.version),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Golden:
    """A name, the project that it belongs to, and where its channels point. waiting: how many versions wait for review."""

    name: str
    project: str
    channels: Mapping[str, int]
    versions: int
    waiting: int
    latest: Version
