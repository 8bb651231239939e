"""`gradassay ledger`: what was decided on the service, by whom and why."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from gradassay.cli.session import session_of
from gradassay.cli.stores import configured_service

if TYPE_CHECKING:
    from collections.abc import Mapping

LIMIT = 50


def ledger(
    context: typer.Context,
    golden: Annotated[str, typer.Option("--golden", help="Only entries about this golden.")] = "",
    limit: Annotated[int, typer.Option("--limit", min=1, help="At most this many entries, the newest.")] = LIMIT,
) -> None:
    """List decisions that were made on the service, newest first: what was proposed, approved, rejected, accepted, undone."""
    from gradassay.cli.tables import table
    from gradassay.client.pages import every

    session = session_of(context)
    with configured_service(session) as client:
        entries = list(every(client, "/ledger", most=limit, golden=golden or None))
    if session.json:
        session.emit_json(entries)
        return
    session.say(f"{len(entries)} entries of {client.url}")
    if entries:
        session.show(table(("entry", "when", "who", "did", "what", "why"), (_row(entry) for entry in entries)))


def _row(entry: Mapping[str, Any]) -> tuple[str, ...]:
    golden = f"{entry['golden']} v{entry['version']}" if entry["version"] else entry["golden"]
    run = f"run:{entry['run'][:12]}" if entry["run"] else ""
    what = " ".join(filter(None, (golden, entry["channel"] and f"({entry['channel']})", run)))
    return (str(entry["number"]), entry["at"][:16].replace("T", " "), entry["who"], entry["action"], what, entry["why"])
