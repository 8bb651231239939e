"""Approving a golden in MLflow: a copy out of reach of `mlflow gc`, an entry in the ledger, an alias as its mirror."""

from __future__ import annotations

from pathlib import Path

from gradassay.goldens.errors import Conflict
from gradassay.goldens.store import approval, names
from gradassay.goldens.store.approval import Approval
from gradassay.goldens.store.mlflow_client import Connection
from gradassay.goldens.store.mlflow_limits import check_tags, summarise
from gradassay.goldens.store.mlflow_runs import publish_run, visible_runs
from gradassay.goldens.store.mlflow_versions import (
    GOLDEN,
    LEDGER,
    append_version,
    ledger_entry,
    ledger_tags,
    search_versions,
)
from gradassay.goldens.store.protocol import GoldenVersion
from gradassay.goldens.store.staging import now

APPROVED = "gradassay-approved"
_ATTEMPTS = 5


def approve(
    connection: Connection,
    golden: GoldenVersion,
    path: Path,
    file_name: str,
    *,
    channel: str,
    who: str,
    why: str,
    expected: int | None,
) -> None:
    """Copies the golden's file at `path`, appends to its ledger, and points the alias `channel` at the result.

    The ledger is compare-and-set without any lock: an entry counts only where it names what the channel pointed to when
    the entry was appended (see approval.effective), and the registry fixes the order of entries. Raises Conflict where
    `expected` is not what the channel points to, or where others keep changing it.
    """
    model = LEDGER + names.encode(golden.name)
    present = _present(connection, golden.name, channel)
    approval.check_expected(golden.name, channel, expected, present)
    check_tags(ledger_tags(_entry(golden, channel, present, who, why)))
    copies = visible_runs(connection, APPROVED, golden.digest)
    if not copies:
        summary = summarise({}, {"gradassay.golden": golden.name})
        copies = [publish_run(connection, APPROVED, golden.name, path, file_name, golden.digest, summary)]
    for _ in range(_ATTEMPTS):
        present = _present(connection, golden.name, channel)
        approval.check_expected(golden.name, channel, expected, present)
        entry = _entry(golden, channel, present, who, why)
        row = append_version(connection, model, copies[0], ledger_tags(entry))
        if _took_effect(connection, golden.name, int(row.version)):
            _mirror(connection, golden.name, channel)
            return
    raise Conflict(
        f"golden {golden.name}: {channel} was changed by others {_ATTEMPTS} times in a row",
        hint="look at the history (gradassay golden show), then decide again",
        golden=golden.name,
        channel=channel,
    )


def _entry(golden: GoldenVersion, channel: str, present: int | None, who: str, why: str) -> Approval:
    return Approval(
        name=golden.name, channel=channel, version=golden.version, previous=present, who=who, why=why, when=now()
    )


def _present(connection: Connection, name: str, channel: str) -> int | None:
    _, ledger = search_versions(connection, name)
    return approval.channels(ledger_entry(row) for row in ledger).get(channel)


def _took_effect(connection: Connection, name: str, number: int) -> bool:
    _, ledger = search_versions(connection, name)
    entries = {int(row.version): ledger_entry(row) for row in ledger}
    return any(entry is entries.get(number) for entry in approval.effective(entries.values()))


def _mirror(connection: Connection, name: str, channel: str) -> None:
    """Sets the alias to what the ledger says, until the ledger has not moved meanwhile."""
    present = _present(connection, name, channel)
    for _ in range(_ATTEMPTS):
        with connection.calling() as client:
            client.set_registered_model_alias(GOLDEN + names.encode(name), channel, str(present))
        latest = _present(connection, name, channel)
        if latest == present:
            return
        present = latest
