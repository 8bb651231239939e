"""`gradassay gc`: deletes runs and versions of goldens that nobody misses, on the service's own machine."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gradassay.cli.machine import Folder, person, places
from gradassay.cli.session import Session, session_of
from gradassay.goldens.errors import UsageError

if TYPE_CHECKING:
    from gradassay.api.database.database import Database
    from gradassay.api.ledger.retention import Item, Outcome, Plan
    from gradassay.api.settings import ServiceSettings
    from gradassay.goldens.store.protocol import GoldenStore

KEEP_DAYS = 90.0
SQLITE = "sqlite:///"


def gc(
    context: typer.Context,
    delete: Annotated[bool, typer.Option("--delete", help="Delete what is listed; without it nothing is.")] = False,
    keep_days: Annotated[
        float, typer.Option("--keep-days", min=0, max=36500, help="What is younger than this stays, whatever it is.")
    ] = KEEP_DAYS,
    folder: Folder = None,
) -> None:
    """List what nobody misses: runs that were not reviewed, versions that were rejected or passed over; --delete deletes it.

    What a channel points to, would point to again, or rests on always stays. Works on the service's own machine.
    """
    session = session_of(context)
    with _opened(places(context, folder)) as (settings, database, store):
        from gradassay.api.ledger.ledger import Ledger
        from gradassay.api.ledger.retention import carry_out, plan
        from gradassay.api.runs.runs import Runs

        # What the command line did in the store since the service last looked must not be taken for unused.
        Ledger(database, store, reviewers=settings.reviewers).adopt()
        Runs(database, store).adopt()
        wanted = plan(database, store, older_than=timedelta(days=keep_days))
        outcomes = list(carry_out(database, store, wanted, who=person())) if delete else None
    if session.json:
        session.emit_json(_document(wanted, outcomes))
    else:
        _show(session, wanted, outcomes)
    for error in (one.error for one in outcomes or () if one.error is not None):
        # The rest was done, and what was done has been said.
        raise error


@contextmanager
def _opened(chosen: dict[str, Any]) -> Iterator[tuple[ServiceSettings, Database, GoldenStore]]:
    from gradassay.api.database.database import Database
    from gradassay.api.database.migrate import upgrade
    from gradassay.api.operations.logs import configure_logs
    from gradassay.api.settings import ServiceSettings
    from gradassay.goldens.store.open import open_store

    configure_logs()
    settings = ServiceSettings.load(**chosen)
    path = Path(settings.database_url.removeprefix(SQLITE))
    if settings.database_url.startswith(SQLITE) and not path.is_file():
        raise UsageError(
            f"there is no database of a service in {path}",
            hint="run it on the service's own machine with the service's settings, or name its --folder",
        )
    database = Database(settings.database_url)
    try:
        upgrade(database)
        yield settings, database, open_store(settings.store)
    finally:
        database.close()


def _document(wanted: Plan, outcomes: Sequence[Outcome] | None) -> dict[str, Any]:
    """As `--json` prints it. deleted: null where nothing was to be deleted; kept: why an item was left after all."""
    kept = {one.item.ref: one.kept for one in outcomes or ()}
    return {
        "cutoff": wanted.cutoff.isoformat(),
        "size": wanted.size,
        "stays": dict(wanted.kept),
        "items": [
            {
                "ref": item.ref,
                "digest": item.digest,
                "project": item.project,
                "at": item.at.isoformat(),
                "size": item.size,
                "reason": item.reason,
                "deleted": None if outcomes is None else not kept[item.ref],
                "kept": kept.get(item.ref, ""),
            }
            for item in wanted.items
        ],
    }


def _show(session: Session, wanted: Plan, outcomes: Sequence[Outcome] | None) -> None:
    from rich.filesize import decimal

    from gradassay.cli.tables import table

    kept = {one.item.ref: one.kept for one in outcomes or ()}
    gone = [item for item in wanted.items if not kept.get(item.ref)]
    if wanted.items:
        rows = (_row(item, kept.get(item.ref, ""), decimal(item.size)) for item in wanted.items)
        session.show(table(("what", "since", "size", "why"), rows, right=("size",)))
    for why, count in sorted(wanted.kept.items()):
        session.say(f"stays: {count} {why}")
    size = decimal(sum(item.size for item in gone))
    if outcomes is not None:
        session.say(f"{len(gone)} of {len(wanted.items)} deleted, {size}")
    elif wanted.items:
        session.say(f"{len(gone)} may go, {size}; nothing was deleted, --delete does that")
    else:
        session.say(f"nothing may go that is older than {wanted.cutoff:%Y-%m-%d}")


def _row(item: Item, kept: str, size: str) -> tuple[str, ...]:
    return (item.ref, f"{item.at:%Y-%m-%d}", size, f"kept: {kept}" if kept else item.reason)
