"""`gradassay golden approve`, `reject` and `undo`: on the service; approvals also on a store."""

from __future__ import annotations

import getpass
from typing import Annotated

import typer

from gradassay.cli.session import session_of
from gradassay.cli.stores import configured_service
from gradassay.goldens.errors import UsageError

Name = Annotated[str, typer.Argument(metavar="NAME", help="Name of the golden, or NAME@vN.")]
VersionText = Annotated[
    str | None, typer.Argument(metavar="[VERSION]", help="The version that is decided about, as in 3 or v3.")
]
Channel = Annotated[str, typer.Option("--channel", help="The channel to point at this version.")]
Expected = Annotated[
    int | None,
    typer.Option("--expected", min=0, help="Decide only if the channel points to this version now (0: to none)."),
]


def approve(
    context: typer.Context,
    name: Name,
    version: VersionText = None,
    reason: Annotated[str, typer.Option("--reason", help="Why; kept in the history.")] = "",
    channel: Channel = "approved",
    expected: Expected = None,
    who: Annotated[
        str, typer.Option("--who", help="Who approves, on a store; the user of this machine by default.")
    ] = "",
) -> None:
    """Point a channel at a version; the history keeps who did it and why.

    On a service the token says who, and where two reviewers are asked for, the first approval only prepares the second.
    """
    session = session_of(context)
    wanted, number = _version(name, version, "approve")
    if not reason.strip():
        raise UsageError("an approval must say why", hint="give --reason; it stays in the history")
    if session.remote:
        if who:
            raise UsageError(
                "--who cannot be chosen on a service", hint="the token in GRADASSAY_TOKEN says who decides"
            )
        from gradassay.client import store as service

        with configured_service(session) as client:
            entry = service.approve(client, wanted, number, channel=channel, why=reason, expected=expected)
        if session.json:
            session.emit_json(entry)
        if entry["action"] == "endorsed":
            session.say(f"{wanted} v{number} has one approval; {channel} moves when a second reviewer approves it too")
            return
    else:
        from gradassay.cli.golden import version_json
        from gradassay.goldens.store.open import open_store

        approved = open_store().approve(
            wanted, number, channel=channel, who=who or getpass.getuser(), why=reason, expected=expected
        )
        if session.json:
            session.emit_json(version_json(approved))
    session.say(f"{wanted} v{number} is {channel}")


def reject(
    context: typer.Context,
    name: Name,
    version: VersionText = None,
    reason: Annotated[str, typer.Option("--reason", help="Why; whoever proposed the version reads it.")] = "",
    channel: Annotated[str, typer.Option("--channel", help="The channel that --expected is about.")] = "approved",
    expected: Expected = None,
) -> None:
    """Reject a proposed version, on a service; a store keeps approvals only."""
    session = session_of(context)
    wanted, number = _version(name, version, "reject")
    if not reason.strip():
        raise UsageError("a rejection must say why", hint="give --reason; whoever proposed the version reads it")
    if not session.remote:
        raise UsageError(
            "a store keeps approvals only: what nobody approves is never compared with",
            hint="rejections are kept by the service: name it by --url or GRADASSAY_URL",
        )
    from gradassay.client import store as service

    with configured_service(session) as client:
        entry = service.reject(client, wanted, number, channel=channel, why=reason, expected=expected)
    if session.json:
        session.emit_json(entry)
    session.say(f"{wanted} v{number} is rejected")


def undo(
    context: typer.Context,
    entry: Annotated[
        int, typer.Argument(metavar="ENTRY", min=1, help="Number of the decision, as `gradassay ledger` lists it.")
    ],
    reason: Annotated[str, typer.Option("--reason", help="Why; kept in the history.")] = "",
) -> None:
    """Take an approval or a rejection back, on a service; a channel points where it did before."""
    session = session_of(context)
    if not reason.strip():
        raise UsageError("to undo a decision you must say why", hint="give --reason; it stays in the history")
    if not session.remote:
        raise UsageError(
            "a store has no decisions to undo",
            hint="approve the version that should count, or name the service by --url or GRADASSAY_URL",
        )
    from gradassay.client import store as service

    with configured_service(session) as client:
        undone = service.undo(client, entry, why=reason)
    if session.json:
        session.emit_json(undone)
    stands = f"; {undone['channel']} points to {_named(undone['version'])}" if undone["previous"] else ""
    session.say(f"entry {entry} is undone{stands}")


def _named(version: int) -> str:
    return f"v{version}" if version else "no version"


def _version(name: str, version: str | None, verb: str) -> tuple[str, int]:
    from gradassay.goldens.reference import GoldenReference

    wanted = GoldenReference.parse(name if version is None else f"{name}@v{version.removeprefix('v')}")
    if wanted.version is None:
        raise UsageError(f"{name!r} does not say which version", hint=f"write gradassay golden {verb} NAME VERSION")
    return wanted.name, wanted.version
