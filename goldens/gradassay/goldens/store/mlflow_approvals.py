"""Approving a golden in MLflow: a copy out of reach of `mlflow gc`, an entry in the ledger, an alias as its mirror."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

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
    search_aliases,
    search_versions,
)
from gradassay.goldens.store.protocol import GoldenVersion
from gradassay.goldens.store.staging import now

if TYPE_CHECKING:
    from mlflow.entities import Run

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
    present = _present(connection, golden.name, channel)
    approval.check_expected(golden.name, channel, expected, present)
    check_tags(ledger_tags(_entry(golden.name, channel, golden.version, present, who, why)))
    copies = visible_runs(connection, APPROVED, golden.digest)
    if not copies:
        summary = summarise({}, {"gradassay.golden": golden.name})
        copies = [publish_run(connection, APPROVED, golden.name, path, file_name, golden.digest, summary)]
    _append(connection, golden.name, channel, golden.version, copies[0], who=who, why=why, expected=expected)


def withdraw(connection: Connection, name: str, *, channel: str, who: str, why: str, expected: int | None) -> None:
    """Appends to the ledger of `name` that `channel` points nowhere, and removes the alias; as of `approve` otherwise."""
    present = _present(connection, name, channel)
    approval.check_expected(name, channel, expected, present)
    if present is None:
        return
    check_tags(ledger_tags(_entry(name, channel, 0, present, who, why)))
    _, ledger = search_versions(connection, name)
    copy = next(str(row.run_id) for row in reversed(ledger) if ledger_entry(row).version == present)
    with connection.calling() as client:
        run = client.get_run(copy)
    _append(connection, name, channel, 0, run, who=who, why=why, expected=expected)


def repair(connection: Connection) -> list[str]:
    """Sets the aliases of all goldens to what their ledgers say; says which did not. Others' aliases are left alone."""
    _, rows = search_versions(connection, None)
    entries = [ledger_entry(row) for row in rows]
    aliases = search_aliases(connection)
    repaired = []
    for name in sorted({entry.name for entry in entries}):
        of_name = [entry for entry in entries if entry.name == name]
        wanted, named = approval.channels(of_name), aliases.get(name, {})
        for channel in sorted({entry.channel for entry in of_name}):
            if named.get(channel) != wanted.get(channel):
                _mirror(connection, name, channel)
                was, should = approval.version_text(named.get(channel)), approval.version_text(wanted.get(channel))
                repaired.append(f"golden {name}: the alias {channel} named {was}, its ledger says {should}")
    return repaired


def _append(
    connection: Connection,
    name: str,
    channel: str,
    version: int,
    source: Run,
    *,
    who: str,
    why: str,
    expected: int | None,
) -> None:
    for _ in range(_ATTEMPTS):
        present = _present(connection, name, channel)
        approval.check_expected(name, channel, expected, present)
        entry = _entry(name, channel, version, present, who, why)
        row = append_version(connection, LEDGER + names.encode(name), source, ledger_tags(entry))
        if _took_effect(connection, name, int(row.version)):
            _mirror(connection, name, channel)
            return
    raise Conflict(
        f"golden {name}: {channel} was changed by others {_ATTEMPTS} times in a row",
        hint="look at the history (gradassay golden show), then decide again",
        golden=name,
        channel=channel,
    )


def _entry(name: str, channel: str, version: int, present: int | None, who: str, why: str) -> Approval:
    return Approval(name=name, channel=channel, version=version, previous=present, who=who, why=why, when=now())


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
            if present is None:
                client.delete_registered_model_alias(GOLDEN + names.encode(name), channel)
            else:
                client.set_registered_model_alias(GOLDEN + names.encode(name), channel, str(present))
        latest = _present(connection, name, channel)
        if latest == present:
            return
        present = latest
