"""How a proposed version differs from the approved one, computed once and kept beside the version."""

from __future__ import annotations

from typing import Any

from sqlalchemy import select, update

from gradassay.api.database.database import Database
from gradassay.api.database.tables import ChannelRow, EntryRow, VersionRow
from gradassay.api.judging.compute import stored_golden
from gradassay.api.ledger.entry import Action
from gradassay.goldens.store.approval import DEFAULT_CHANNEL
from gradassay.goldens.store.protocol import GoldenStore


def ensure_drift(database: Database, store: GoldenStore, name: str, version: int) -> dict[str, Any] | None:
    """The drift of a version from what `approved` points to, computed if it is not known; None where that is nothing.

    It says `against` which version, and what `Drift.to_json` says. A version that was approved once keeps the drift that
    it was approved with. Raises StoreError where one of the files is gone or damaged.
    """
    with database.read() as session:
        row = session.get(VersionRow, (name, version))
        channel = session.get(ChannelRow, (name, DEFAULT_CHANNEL))
        known = row.drift if row is not None else None
    approved = channel.version if channel is not None else 0
    if row is None or not approved or approved == version or (known and known["against"] == approved):
        return known
    drift = {"against": approved, **_measure(store, name, approved, version)}
    with database.write() as session:
        session.execute(
            update(VersionRow).where(VersionRow.golden == name, VersionRow.version == version).values(drift=drift)
        )
    return drift


def without_drift(database: Database) -> list[tuple[str, int]]:
    """Names and numbers of versions that nobody approved or rejected, and whose drift from what is approved is unknown."""
    decided = select(EntryRow.number).where(
        EntryRow.golden == VersionRow.golden,
        EntryRow.version == VersionRow.version,
        EntryRow.action.in_((Action.APPROVED, Action.REJECTED)),
    )
    query = (
        select(VersionRow.golden, VersionRow.version, VersionRow.drift, ChannelRow.version.label("approved"))
        .join(ChannelRow, (ChannelRow.golden == VersionRow.golden) & (ChannelRow.channel == DEFAULT_CHANNEL))
        .where(ChannelRow.version > 0, ChannelRow.version != VersionRow.version, ~decided.exists())
        .order_by(VersionRow.golden, VersionRow.version)
    )
    with database.read() as session:
        return [
            (row.golden, row.version)
            for row in session.execute(query)
            if row.drift is None or row.drift["against"] != row.approved
        ]


def _measure(store: GoldenStore, name: str, approved: int, version: int) -> dict[str, Any]:
    from gradassay.goldens.assay.drift import assay_drift

    return assay_drift(stored_golden(store, name, approved), stored_golden(store, name, version)).to_json()
